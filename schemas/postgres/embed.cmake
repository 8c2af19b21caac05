# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=<file.c> -P embed.cmake <NNNN_name.sql>...: the migrations as a C table.
set(texts "")
set(table "")
set(count 0)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE 4 ${last})
  set(file "${CMAKE_ARGV${i}}")
  get_filename_component(name "${file}" NAME_WE)
  math(EXPR count "${count} + 1")
  string(LENGTH "000${count}" digits)
  math(EXPR from "${digits} - 4")
  string(SUBSTRING "000${count}" ${from} 4 expected)
  if(NOT name MATCHES "^${expected}_[a-z_]+$")
    message(FATAL_ERROR "${file}: migrations are numbered without gaps, this one is ${expected}_")
  endif()
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND texts "static const char sql_${count}[] = {${bytes}0};\n")
  string(APPEND table "    {${count}, \"${name}\", sql_${count}},\n")
endforeach()
file(WRITE "${OUT}" "#include \"migration.h\"\n\n${texts}
const struct rp_migration rp_migrations[] = {\n${table}};
const int rp_n_migrations = ${count};\n")
