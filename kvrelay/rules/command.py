"""kvrelay check: what is wrong with a deployment, a Serve config or manifests, before anything is deployed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click

from kvrelay.errors import UserError
from kvrelay.rules.checking import check_all, count
from kvrelay.rules.output import as_github, as_json, as_sarif, as_text
from kvrelay.rules.reading import Files, gathered
from kvrelay.rules.registry import RULES
from kvrelay.rules.rule import Finding, Level
from kvrelay.yaml_source import MAX_BYTES, decode_text

DEFAULT_FILE = Path("deployment.yaml")


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A manifest, or a folder of them, that belongs to the deployment, such as dist/. Repeatable.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="How findings are written.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.pass_context
def check(
    context: click.Context, files: tuple[Path, ...], manifests: tuple[Path, ...], output: str, strict: bool
) -> None:
    """Check a deployment against every rule of docs/rules.md.

    FILES are told apart by what they hold: a deployment.yaml, Ray Serve configs, Kubernetes
    manifests (several documents, Helm's output), or folders of them; `-` reads standard input.
    Without FILES it checks ./deployment.yaml and the Serve config that it names.

    Exit codes: 0 nothing found, or warnings only; 1 errors found; 2 a file can't be used.
    """
    gc.disable()  # This process ends soon: collecting costs a third of the time of a large file and frees nothing.
    read = _read(files, manifests)
    findings = check_all(read.subject())
    text = _written(findings, output)
    if text:
        click.echo(text)
    elif output == "text":
        click.echo(f"{', '.join(read.names)}: nothing found by {len(RULES)} rules", err=True)
    failed = count(findings, Level.ERROR) or (strict and count(findings, Level.WARNING))
    context.exit(1 if failed else 0)


def _read(files: tuple[Path, ...], manifests: tuple[Path, ...]) -> Files:
    if not files and not manifests and not DEFAULT_FILE.exists():
        raise UserError(f"{DEFAULT_FILE}: is not here; name the files to check, or run this beside it")
    paths = files if files or manifests else (DEFAULT_FILE,)
    standard_input = [path for path in paths if str(path) == "-"]
    gathered_files = gathered([*(path for path in paths if str(path) != "-"), *manifests])
    if standard_input:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
        gathered_files.add(Path(), text=decode_text(content, "<stdin>"))
    return gathered_files


def _written(findings: list[Finding], output: str) -> str:
    if output == "json":
        return as_json(findings)
    if output == "sarif":
        from importlib.metadata import version

        return as_sarif(findings, version("kvrelay"))
    return as_github(findings) if output == "github" else as_text(findings)
