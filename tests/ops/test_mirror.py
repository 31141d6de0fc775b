"""kvrelay mirror: copies what is missing with the tool that is there, and says what to run where none is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kvrelay.data import versions
from kvrelay.errors import UserError
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.mirror import TOOLS, mirror
from kvrelay.settings import Deployment, ImageMirror, Images

OWN = "123456789012.dkr.ecr.us-east-2.amazonaws.com"
RAY = f"kvrelay/deep-learning-containers/ray:{versions().container.tag}"
WANTED = ImageMirror.of(Deployment(account="123456789012", images=Images(mirror="ecr")))
MEDIA = "application/vnd.oci.image.index.v1+json"
# Stands in for the copying program and the registry behind it: notes its words, and puts an image where it was told.
PROGRAM = """#!{python}
import json, os, sys
import boto3
with open({calls!r}, "a") as calls:
    given = "" if sys.stdin.isatty() else sys.stdin.read()
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:], given]) + "\\n")
targets = [word for word in sys.argv[1:] if ".dkr.ecr." in word and ":" in word.removeprefix("docker://")]
for target in targets if "login" not in sys.argv else []:
    repository, _, tag = target.removeprefix("docker://").partition("/")[2].rpartition(":")
    manifest = json.dumps({{"schemaVersion": 2, "mediaType": {media!r}, "name": target}})
    boto3.client("ecr").put_image(repositoryName=repository, imageManifest=manifest, imageTag=tag)
"""


@pytest.fixture
def repositories(account_here: EmulatedAws) -> Iterator[Any]:
    """The repositories that the Network stack makes."""
    ecr = account_here.account.client("ecr", "us-east-2")
    for image in WANTED.images:
        ecr.create_repository(repositoryName=WANTED.repository(image), imageTagMutability="IMMUTABLE")
    yield ecr
    for image in WANTED.images:
        ecr.delete_repository(repositoryName=WANTED.repository(image), force=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deployment.yaml"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of its own, empty at first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(programs: Path, name: str, text: str = PROGRAM) -> Path:
    calls = programs.parent / "calls"
    (programs / name).write_text(text.format(python=sys.executable, calls=str(calls), media=MEDIA))
    (programs / name).chmod(0o755)
    return calls


def run(file: Path, *arguments: str, mode: str = "ecr", **settings: Any) -> Result:
    settings = {"account": "123456789012", "images": {"mirror": mode}, **settings}
    file.write_text(yaml.safe_dump(settings))
    return CliRunner().invoke(mirror, ["--deployment", str(file), *arguments])


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_image_is_copied_with_the_tool_that_is_there(
    repositories: Any, file: Path, programs: Path, tool: Any
) -> None:
    calls = install(programs, tool.name)
    result = run(file)
    assert result.exit_code == 0, result.output
    login, *copies = [json.loads(line) for line in calls.read_text().splitlines()]
    assert login[:-1] == tool.login_command(OWN)
    assert [each[:-1] for each in copies] == [
        tool.copy_command(image, WANTED.reference(image)) for image in WANTED.images
    ]
    assert all(line.startswith("there ") for line in result.stdout.splitlines())


def test_the_password_goes_by_standard_input_and_is_never_shown(
    repositories: Any, file: Path, programs: Path
) -> None:
    calls = install(programs, "crane")
    result = run(file)
    login = json.loads(calls.read_text().splitlines()[0])
    password = login[-1]
    assert password
    assert password not in " ".join(login[:-1]) + result.output


def test_what_is_there_is_not_copied_again(repositories: Any, file: Path, programs: Path) -> None:
    calls = install(programs, "crane")
    run(file)
    before = calls.read_text()
    assert run(file).exit_code == 0
    assert calls.read_text() == before


def test_without_a_tool_the_commands_are_printed(repositories: Any, file: Path, programs: Path) -> None:
    result = run(file)
    assert "aws ecr get-login-password --region us-east-2 | crane auth login" in result.output
    assert f"crane copy {versions().container.image} {OWN}/{RAY}" in result.output
    assert isinstance(result.exception, UserError)
    assert "3 of 3 images are not in" in str(result.exception)
    assert result.exception.exit_code == 1


def test_show_prints_the_commands_of_the_tool_and_runs_none(
    repositories: Any, file: Path, programs: Path
) -> None:
    calls = install(programs, "skopeo")
    result = run(file, "--show")
    assert result.exit_code == 0
    assert f"skopeo copy --all --preserve-digests docker://{versions().container.image}" in result.output
    assert not calls.exists()


def test_json_says_what_is_there(repositories: Any, file: Path, programs: Path) -> None:
    rows = json.loads(run(file, "--show", "--output", "json").stdout)
    assert rows[0] == {"source": versions().container.image, "target": f"{OWN}/{RAY}", "there": False}


def test_an_image_pinned_by_digest_is_pushed_under_a_tag(
    repositories: Any, file: Path, programs: Path
) -> None:
    digest = f"sha256:{'ab' * 32}"
    image = f"public.ecr.aws/deep-learning-containers/ray@{digest}"
    result = run(file, "--show", serving={"image": image})
    assert f"{OWN}/kvrelay/deep-learning-containers/ray:sha256-{'ab' * 6}" in result.output


def test_a_tool_that_fails_is_one_line(repositories: Any, file: Path, programs: Path) -> None:
    install(programs, "crane", "#!/bin/sh\nexit 3\n")
    error = run(file).exception
    assert str(error) == "crane auth ended with exit code 3; its reason stands above"


def test_repositories_that_are_not_there_name_the_stack_that_makes_them(
    account_here: EmulatedAws, file: Path
) -> None:
    assert "cdk deploy kvrelay-network" in str(run(file).exception)


def test_another_account_is_refused(account_here: EmulatedAws, file: Path) -> None:
    assert "999999999999" in str(run(file, account="999999999999").exception)


def test_pull_through_needs_no_copy(account_here: EmulatedAws, file: Path) -> None:
    result = run(file, mode="pull-through")
    assert (result.exit_code, result.stdout) == (0, "ECR itself fetches each image at its first pull\n")


def test_without_a_mirror_it_says_which_setting(file: Path) -> None:
    assert "images.mirror is none" in str(run(file, mode="none").exception)
