"""YAML with places: right values, right lines, one line for each fault, and bounds against hostile files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvrelay.errors import InvalidFileError, UserError
from kvrelay.rules import check_all
from kvrelay.rules.output import as_github, as_json, as_sarif, as_text
from kvrelay.rules.reading import gathered
from kvrelay.yaml_source import (
    MAX_BYTES,
    MAX_DOCUMENTS,
    MAX_VALUES,
    Document,
    Node,
    Origin,
    YamlPath,
    parse_documents,
    path_text,
    read_document,
    read_text,
)

ROOT = Path(__file__).parents[1]
SHIPPED = [
    ROOT / "deployment.yaml",
    ROOT / "serve_configs" / "qwen3.5-9b.yaml",
    ROOT / "tests" / "rules" / "examples" / "rayservice-in-the-wild.yaml",
    ROOT / "tests" / "rules" / "examples" / "helm-rendered.yaml",
]
MOST_MEMORY_KIB = 200 * 1024
MOST_TIMES_THE_REFERENCE = 6

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def one(text: str) -> Document:
    """The one document in `text`."""
    (document,) = parse_documents(text, "file.yaml")
    return document


def fault(text: str) -> str:
    """The one line that says why `text` can't be read."""
    with pytest.raises(InvalidFileError) as refused:
        parse_documents(text, "file.yaml")
    (line,) = refused.value.lines
    assert "\n" not in line
    return line


def walk(node: Node, path: YamlPath = ()) -> Iterator[tuple[YamlPath, Node]]:
    yield path, node
    for key, child in node.children.items():
        yield from walk(child, (*path, key))


# Values and places


@quick
@given(PLAIN.filter(lambda value: value is not None))
def test_values_are_those_that_were_written(value: Any) -> None:
    assert one(yaml.safe_dump(value)).value == value


@quick
@given(st.dictionaries(TEXT.filter(bool), PLAIN, min_size=1, max_size=4))
def test_a_value_of_a_mapping_is_placed_at_its_key(value: dict[str, Any]) -> None:
    text = yaml.safe_dump(value, width=10_000)
    document, lines = one(text), text.splitlines()
    for path, node in walk(document.root):
        if path and isinstance(path[-1], str) and path[-1].isascii() and path[-1].isalnum():
            assert lines[node.line - 1][node.column - 1 :].lstrip("'\"").startswith(path[-1])


def test_the_place_of_what_is_missing_is_that_of_the_nearest_value_above() -> None:
    document = one("a:\n  b: {c: 1}\n")
    assert str(document.place(("a", "b", "x", "y"))) == "file.yaml:2"
    assert document.node(("a", "b", "x", "y")) is None
    assert document.at(("a", "b", "c")) == 1


def test_merges_and_aliases_are_followed_and_own_keys_win() -> None:
    document = one("base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nlist: {<<: [*base, {c: 4}]}\n")
    assert document.value["other"] == {"a": 1, "b": 3}
    assert document.value["list"] == {"a": 1, "b": 2, "c": 4}


def test_dates_and_quoted_numbers_stay_text() -> None:
    assert one('a: 2026-01-01\nb: "1"\n').value == {"a": "2026-01-01", "b": "1"}


def test_documents_that_hold_nothing_are_left_out() -> None:
    assert [each.value for each in parse_documents("---\n# only a comment\n---\na: 1\n---\n", "f")] == [
        {"a": 1}
    ]


def test_a_path_is_written_as_readers_know_it() -> None:
    assert path_text(("args", "items", 0, "name")) == "args.items[0].name"


# YAML inside YAML


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("before", ["", "\n", "  # comment\n"], ids=["", "empty line", "comment"])
def test_lines_of_a_literal_block_are_lines_of_the_file(before: str, break_: str) -> None:
    outer = ("a: 1\ntext: |\n" + before.replace("  #", "    #") + "    x:\n      y: [1, 2]\n").replace(
        "\n", break_
    )
    node = one(outer).node(("text",))
    assert node is not None
    assert node.text_origin is not None
    (inner,) = parse_documents(node.value, "file.yaml", node.text_origin)
    line = 4 + bool(before)
    assert (inner.place(("x", "y")).line, inner.place(("x", "y")).column) == (line, 7)
    with pytest.raises(InvalidFileError, match=f"^file.yaml:{line}: "):
        parse_documents(node.value.replace("[1, 2]", "*nothing"), "file.yaml", node.text_origin)


@pytest.mark.parametrize("text", ["text: 'x: 1'\n", 'text: "x: 1"\n', "text: >\n  x: 1\n", "text: |\n\n"])
def test_other_text_has_no_lines_of_its_own(text: str) -> None:
    node = one(text).node(("text",))
    assert node is not None
    assert node.text_origin is None


def test_text_without_lines_of_its_own_is_placed_where_it_begins() -> None:
    (inner,) = parse_documents("x:\n  y: 1\n", "file.yaml", Origin(7, 3, literal=False))
    assert (inner.place(("x", "y")).line, inner.place(("x", "y")).column) == (7, 3)


# One line for each fault

FAULTS = {
    "a: [": "2: is not YAML: did not find expected node content",
    "a: *b\n": "1: refers to the anchor *b, which nothing above defines",
    "a: &a [*a]\n": "1: refers to the anchor *a, which nothing above defines",
    "a: 1\na: 2\n": "2: names the key 'a' a second time; keep one of them",
    "? [a]\n: 1\n": "1: has a list or mapping as a key; use text",
    "a: {<<: 1}\n": "1: merges (<<) something that is not a mapping",
    "a:\n\tb: 1\n": "2: is not YAML: found character that cannot start any token",
    "a: \x00": "1: holds the character U+0000, which YAML does not allow; remove it",
    "a: !!python/object:os.system x\n": (
        "1: has the tag tag:yaml.org,2002:python/object:os.system, which is not plain data; remove it"
    ),
    "a: !!binary aGk=\n": "1: has the tag tag:yaml.org,2002:binary, which is not plain data; remove it",
    "a: !!set x\n": "1: has the tag tag:yaml.org,2002:set, which is not plain data; remove it",
    "a: !Ref x\n": "1: has the tag !Ref, which is not plain data; remove it",
    "a: !!int x\n": "1: 'x' is not a valid int",
    "a: !!float x\n": "1: 'x' is not a valid float",
    "a: !!bool x\n": "1: 'x' is not a valid bool",
}


@pytest.mark.parametrize(("text", "line"), FAULTS.items())
def test_a_fault_is_one_line_with_its_place(text: str, line: str) -> None:
    assert fault(text) == f"file.yaml:{line}"


def test_bytes_that_are_not_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InvalidFileError, match=r"x.yaml:2: is not UTF-8 text; save it as UTF-8$"):
        read_document(file)


@pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b", "x" * 5000])
def test_what_is_no_readable_file_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidFileError) as refused:
        read_text(tmp_path / name)
    assert len(refused.value.lines) == 1


def test_a_file_without_end_is_read_no_further_than_the_limit() -> None:
    with pytest.raises(InvalidFileError, match="is larger than 4096 KiB"):
        read_text(Path("/dev/zero"))


# Bounds

SCALAR = "x" * 10
HOSTILE = {
    "numbers": "[" + "1," * MAX_VALUES + "]",
    "mappings of little": "[" + "{}," * (MAX_BYTES // 4) + "]",
    "lists of nothing": "[" + "[]," * (MAX_BYTES // 4) + "]",
    "aliases of a number": "a: &a 1\nb: [" + "*a," * (MAX_BYTES // 4) + "]",
    "aliases of aliases": "a0: &a0 [1,1,1,1,1,1,1,1]\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, 30)),
    "merges in one mapping": "a: &a {" + ",".join(f"k{i}: 1" for i in range(20_000)) + "}\nb:\n" + "  <<: *a\n" * 2_000,
    "merges in many mappings": "a: &a {"
    + ",".join(f"k{i}: 1" for i in range(20_000))
    + "}\n"
    + "".join(f"m{i}: {{<<: *a}}\n" for i in range(2_000)),
    "numbers of base 60": "a: 1" + ":1" * (MAX_BYTES // 4),
    "fractions of base 60": "a: 1" + ":1" * (MAX_BYTES // 4) + ".5",
    "a long number": "a: " + "1" * (MAX_BYTES - 10),
    "a long hexadecimal number": "a: 0x" + "f" * (MAX_BYTES - 10),
    "depth of lists": "[" * (MAX_BYTES // 2),
    "depth of mappings": "{a: " * (MAX_BYTES // 8),
    "depth of lines": "\n".join(" " * i + "a:" for i in range(2_000)),
    "depth of dashes": "- " * (MAX_BYTES // 4),
    "depth of questions": "? " * (MAX_BYTES // 4),
    "anchors": "".join(f"- &a{i} {SCALAR}\n" for i in range(MAX_VALUES)),
    "documents": "---\na: 1\n" * (MAX_DOCUMENTS + 1),
    "empty documents": "---\n" * (MAX_BYTES // 8),
    "aliases in many documents": "---\na: &a [" + "1," * 300 + "]\nb: [" + "*a," * 200 + "]\n"
    + ("---\na: &a [" + "1," * 300 + "]\nb: [" + "*a," * 200 + "]\n") * 100,
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_built_to_exhaust_the_reader_is_refused_in_one_line(kind: str) -> None:
    assert len(fault(HOSTILE[kind])) < 200


SERVICE = "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: a}\nspec:\n"
CONTAINER = "containers: [{image: x, resources: {limits: {nvidia.com/gpu: 1}}}]"
ENGINE = (
    "{model_loading_config: {model_id: a}, engine_kwargs: {kv_transfer_config: "
    "{kv_connector: NixlConnector, kv_role: kv_both, engine_id: a}}}"
)
BUILDER = "import_path: 'ray.serve.llm:build_pd_openai_app'"
APPLICATION = f"{BUILDER}, args: {{prefill_config: {ENGINE}, decode_config: {ENGINE}}}"
TYPE = "node.kubernetes.io/instance-type"
# As large as may be read, each where some rule could be made to work more than once for each value.
LARGEST = {
    "worker groups": SERVICE
    + "  rayClusterConfig:\n    workerGroupSpecs:\n"
    + "".join(f"    - {{groupName: g{i}, template: {{spec: {{{CONTAINER}}}}}}}\n" for i in range(4_700)),
    "one worker group many times": SERVICE
    + f"  rayClusterConfig:\n    workerGroupSpecs:\n    - &g {{template: {{spec: {{{CONTAINER}}}}}}}\n"
    + "    - *g\n" * 9_000,
    "ray services": "---\n".join([SERVICE + "  serveConfigV2: 'applications: []'\n"] * MAX_DOCUMENTS),
    "applications": "applications:\n" + "".join(f"- {{name: a{i}, {APPLICATION}}}\n" for i in range(1_400)),
    "pods": "apiVersion: v1\nkind: List\nitems:\n"
    + f"- {{apiVersion: v1, kind: Pod, spec: {{{CONTAINER}}}}}\n" * 4_500,
    "embedded serve configs": "---\n".join(
        ["apiVersion: ray.io/v1\nkind: RayService\nspec: {serveConfigV2: '[" + "1," * 50_000 + "]'}\n"] * 40
    ),
    "one embedded serve config many times": "apiVersion: v1\nkind: List\nitems:\n"
    + "- &s {apiVersion: ray.io/v1, kind: RayService, spec: {serveConfigV2: '[" + "1," * 5_000 + "]'}}\n"
    + "- *s\n" * 9_000,
    "misspelled keys": "applications:\n- import_path: ray.serve.llm:build_openai_app\n"
    + "  args: {llm_config: {engine_kwargs: {"
    + ",".join(f"tensor_parallel_siz{i}: 1" for i in range(48_000))
    + "}}}\n",
    "acknowledgements": "applications: []\n" + "# acknowledge KV001: because of it\n" * 110_000,
    "node pools": "apiVersion: v1\nkind: List\nitems:\n"
    + "".join(
        "- {apiVersion: karpenter.sh/v1, kind: NodePool, spec: {template: {spec: {requirements: "
        f"[{{key: {TYPE}, operator: In, values: [g6.x{i}]}}]}}}}}}}}\n"
        for i in range(4_000)
    ),
    "accepted rules in deployment.yaml": "acknowledge: {" + ",".join(f"KV{i}: a b" for i in range(48_000)) + "}\n",
    "admins": "cluster: {admins: ["
    + ",".join(f"'arn:aws:iam::123456789012:role/a{i}'" for i in range(90_000))
    + "]}\n",
    "an instance type's name": "gpu_nodes: {groups: [{instance_type: " + "x" * 3_000_000 + "}]}\n",
}  # fmt: skip


# The process tells its own peak: what the kernel accounts to a child begins with its parent's.
MEASURED = """\
import atexit, sys
from kvrelay.cli import main

def tell(file=sys.argv.pop(1)):
    with open("/proc/self/status") as status, open(file, "w") as told:
        told.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))

atexit.register(tell)
main()
"""


def _cost(folder: Path, *arguments: str | Path) -> tuple[int, float, int]:
    """Exit code, CPU seconds and the most memory (KiB) of a `kvrelay check`."""
    peak = folder / "peak"
    command = [sys.executable, "-c", MEASURED, str(peak), "check", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_limited
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_utime + usage.ru_stime, int(peak.read_text())


def _limited() -> None:
    """Ends a child that runs away, long before the machine feels it."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> float:
    """CPU seconds of checking the reference deployment, here and now."""
    return max(_cost(tmp_path_factory.mktemp("reference"))[1] for _ in range(3))


@pytest.mark.parametrize("kind", [*HOSTILE, *LARGEST])
def test_no_file_costs_much_more_than_the_reference(kind: str, reference: float, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text({**HOSTILE, **LARGEST}[kind])
    code, seconds, memory = _cost(tmp_path, file)
    assert code in {0, 1, 2}
    assert memory < MOST_MEMORY_KIB
    assert seconds < MOST_TIMES_THE_REFERENCE * reference


# Whatever is in a file, users read lines, never a traceback


def _check(text: str | bytes, folder: Path) -> None:
    file = folder / "x.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    try:
        findings = check_all(gathered([file]).subject())
    except UserError:
        return
    for written in (as_text(findings), as_json(findings), as_github(findings), as_sarif(findings, "0")):
        written.encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@quick
@given(content=st.binary(max_size=200) | st.text("{}[]&*a:1-|>\"'<,#!%@`?\n\t \\\0", max_size=60))
def test_any_bytes_are_read_or_refused_in_lines(content: str | bytes, folder: Path) -> None:
    _check(content, folder)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """A shipped file after a few accidents: lines lost, repeated, moved or indented, characters typed in."""
    lines = draw(st.sampled_from(SHIPPED)).read_text().splitlines()
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        accident = draw(st.sampled_from(["lose", "repeat", "indent", "type", "cut", "alias", "value"]))
        if accident == "lose":
            del lines[at]
        elif accident == "repeat":
            lines.insert(at, lines[draw(st.integers(0, len(lines) - 1))])
        elif accident == "indent":
            lines[at] = draw(st.sampled_from(["  ", "\t", "- "])) + lines[at]
        elif accident == "type":
            column = draw(st.integers(0, len(lines[at])))
            lines[at] = lines[at][:column] + draw(st.text(max_size=4)) + lines[at][column:]
        elif accident == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        elif accident == "alias":
            lines[at] = lines[at].partition(":")[0] + draw(
                st.sampled_from([": &x", ": *x", ": {<<: *x}", ": !!set {}"])
            )
        else:
            lines[at] = (
                lines[at].partition(":")[0]
                + ": "
                + yaml.safe_dump(draw(PLAIN), default_flow_style=True).strip()
            )
    return "\n".join(lines)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=mangled())
def test_any_accident_to_a_good_file_is_read_or_refused_in_lines(text: str, folder: Path) -> None:
    _check(text, folder)
