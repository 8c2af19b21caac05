# SPDX-License-Identifier: Apache-2.0
"""The contract as this folder has it is the one that the project ships."""

import json

import pytest
from fastavro.schema import to_parsing_canonical_form

import contract
from servers import ROOT


def test_the_fingerprint_is_the_specification_s():
    # From the Avro specification's own test data: the CRC-64-AVRO of "null".
    assert contract.fingerprint("null") == (0x63DD24E7CC258F8A).to_bytes(8, "little")


@pytest.mark.parametrize(
    "file, schema", [("FailedTask", contract.FAILED_TASK), ("DeadLetter", contract.DEAD_LETTER)]
)
def test_the_shipped_schema_says_the_same(file, schema):
    paths = [p for p in (ROOT / "schemas").rglob("*.avsc") if file in json.loads(p.read_text())["name"]]
    assert len(paths) == 1, paths
    shipped = json.loads(paths[0].read_text())
    assert to_parsing_canonical_form(shipped) == to_parsing_canonical_form(schema)
