# Frontiers that are broken on purpose, one test each: the simulation must catch them. They are made
# from the real source by replacing text, which must be there exactly once, so that the source has
# no trace of them and a break that fits no more stops the build.

set(core ${PROJECT_SOURCE_DIR}/services/delayer)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${core}/frontier.c)

# frontier_break(name from to [from to]...)
function(frontier_break name)
  file(READ ${core}/frontier.c source)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 1 ${last} 2)
    math(EXPR j "${i} + 1")
    string(FIND "${source}" "${ARGV${i}}" first)
    string(FIND "${source}" "${ARGV${i}}" again REVERSE)
    if(first EQUAL -1 OR NOT first EQUAL again)
      message(FATAL_ERROR "frontier break '${name}': not once in frontier.c: ${ARGV${i}}")
    endif()
    string(REPLACE "${ARGV${i}}" "${ARGV${j}}" source "${source}")
  endforeach()
  file(CONFIGURE OUTPUT frontier_breaks/${name}.c CONTENT "${source}" @ONLY)

  set(test frontier_break_${name})
  add_executable(${test} frontier_sim/broken.c
    ${CMAKE_CURRENT_BINARY_DIR}/frontier_breaks/${name}.c
    ${PROJECT_SOURCE_DIR}/services/delayer/checkpoint.c)
  # What is broken may trip over asserts, its own and those of what it writes; it is for the
  # simulation to catch it.
  target_compile_options(${test} PRIVATE -w -DNDEBUG)
  # Its own come before the library's, from which only the rest is taken.
  target_link_libraries(${test} PRIVATE frontier_sim)
  add_test(NAME ${test} COMMAND setpriv --pdeathsig KILL -- $<TARGET_FILE:${test}>)
  set_tests_properties(${test} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()

frontier_break(high_is_the_read_position
  "c.high = f->slots.at[f->late.head].key.offset;" "c.high = f->next;")
frontier_break(settled_passes_a_late_record
  "f->late.n > 0 ? f->late.head : f->heap.ids[0]" "f->heap.n == 0 ? f->late.head : f->heap.ids[0]"
  "if (f->late.n > 0) {" "if (f->heap.n == 0) {")
frontier_break(late_is_not_told_apart
  "if (settle_key_before(f->at.settled, f->slots.at[id].key))" "if (true)")
frontier_break(late_is_judged_without_what_is_in_flight
  "if (settle_key_before(f->at.settled, f->slots.at[id].key))"
  "if (settle_key_before(f->settled_before, f->slots.at[id].key))")
frontier_break(recovery_does_not_wait_for_high
  "(f->late.n == 0 && f->heap.n == 0) || frontier_recovering(f)"
  "f->late.n == 0 && f->heap.n == 0")
frontier_break(recovery_keeps_what_was_settled
  "if (offset >= f->at.high || settle_key_before(f->at.settled, s.key))" "if (true)")
frontier_break(recovery_drops_beyond_high
  "if (offset >= f->at.high || settle_key_before(f->at.settled, s.key))"
  "if (settle_key_before(f->at.settled, s.key))")
frontier_break(recovery_compares_the_time_alone
  "if (offset >= f->at.high || settle_key_before(f->at.settled, s.key))"
  "if (offset >= f->at.high || f->at.settled.ms < s.key.ms)")
frontier_break(recovery_commits_its_read_position
  "else if (!frontier_recovering(f))" "else")
frontier_break(reach_is_the_one_of_now
  "checkpoint_reach(&f->at, offset)" "f->reach_ms")
frontier_break(reach_changes_below_high
  "checkpoint_change_reach(&f->at, reach_ms)" "f->at.reaches[f->at.n_reaches - 1].ms = reach_ms")
frontier_break(a_lap_is_a_delivery
  "*out_lap = true" "*out_lap = false")
frontier_break(untake_leaves_settled
  "f->at.settled = f->settled_before;" "")
frontier_break(untake_leaves_low
  "f->at.settled = f->settled_before;\n    f->first_held = f->slots.first;"
  "f->at.settled = f->settled_before;")
frontier_break(untake_leaves_late_records_late
  "place(f, slot_queue_take(&f->slots, &late));"
  "slot_queue_put(&f->slots, &f->late, slot_queue_take(&f->slots, &late));")
frontier_break(untake_goes_back_too_far
  "f->settled_before = f->sent_off;" "")
frontier_break(settled_counts_what_was_taken_beside_it
  "f->settled_before = f->sent_off;" "f->settled_before = f->at.settled;")
frontier_break(what_was_taken_beside_it_is_settled_with_it
  "for (; f->n_sent_off > 0; f->n_sent_off--)" "for (f->n_sent_off = 0; f->in_flight.n > 0;)")
frontier_break(settled_is_forgotten_while_records_wait
  "if (f->heap.n > 0 || f->in_flight.n > 0 ||" "if (f->in_flight.n > 0 ||")
frontier_break(settled_is_forgotten_while_records_are_in_flight
  "if (f->heap.n > 0 || f->in_flight.n > 0 ||" "if (f->heap.n > 0 ||")
frontier_break(settled_is_forgotten_in_a_recovery
  " || frontier_recovering(f))\n        return;\n    f->at.settled" ")\n        return;\n    f->at.settled")
