"""The pipelines' own steps, from a bare clone to a deployment in the emulated AWS and its drift."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import kvrelay.local.aws.server as server
from kvrelay.local.aws.emulator import EmulatedAws
from tests.ci.drift_detection import DriftDetectingApi
from tests.ci.forge import Forge, running
from tests.ci.workflow import Runner

ROOT = Path(__file__).parents[2]
OURS = "github.event.pull_request.head.repo.full_name == github.repository"
ROLE = f"{OURS} && vars.AWS_DIFF_ROLE_ARN || ''"
SETTINGS = {"ci": {"type": "github", "repository": "team@11/model@22"}}


@dataclass
class Project:
    """A clone of a bare repository, the account it deploys to, and the forge it is kept in."""

    aws: EmulatedAws
    forge: Forge
    clone: Path
    environment: dict[str, str]

    def runner(self, **expressions: str) -> Runner:
        """A fresh job's machine."""
        known = {"github.token": "t", "github.event.pull_request.number": "7", OURS: "true", ROLE: ""}
        return Runner(self.clone, self.environment, {**known, **expressions})

    def git(self, *arguments: str) -> str:
        """What git says in the clone."""
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.clone, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, message: str, settings: dict[str, object]) -> None:
        """Changes the deployment file, as a person would."""
        file = self.clone / "deployment.yaml"
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **SETTINGS, **settings}))
        self.git("commit", "--quiet", "--all", "--message", message)

    @property
    def comment(self) -> str:
        """The one comment of the pull request."""
        (only,) = self.forge.comments
        return str(only["body"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("forge")
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, folder / "bare.git"], check=True)
    subprocess.run(["git", "clone", "--quiet", folder / "bare.git", folder / "clone"], check=True)
    clone = folder / "clone"
    with pytest.MonkeyPatch.context() as patch, EmulatedAws() as aws, running("github") as forge:
        patch.setattr(server, "CloudFormationApi", DriftDetectingApi)
        environment = {
            **aws.environment(),
            **forge.environment,
            "HOME": str(folder),
            "CI": "true",
            "GITHUB_BASE_REF": "main",
            "CDK_VALIDATION": "false",
            # The tools are this environment's, installed once; the code is the clone's.
            "PYTHONPATH": f"{clone}:{clone}/constructs",
        }
        project = Project(aws, forge, clone, environment)
        _set_up(clone)
        project.git("checkout", "--quiet", "-B", "main")
        project.commit("Name the repository", {})
        project.git("push", "--quiet", "--force", "origin", "main")
        project.git("checkout", "--quiet", "-b", "change")
        yield project


def _set_up(clone: Path) -> None:
    """Lends this checkout's .venv and node_modules: `make setup` finds them newer than what they are made from."""
    for name in (".venv", "node_modules"):
        (clone / name).symlink_to((ROOT / name).resolve())
    assert (clone / ".venv/.ready").exists(), "run make setup"
    for name in ("requirements.txt", "pyproject.toml", "package-lock.json"):
        os.utime(clone / name, (0, 0))
    with (clone / ".git/info/exclude").open("a") as excluded:
        excluded.write("/.venv\n/node_modules\n")


def test_a_pull_request_is_checked_for_code_scanning(project: Project) -> None:
    project.runner().job("synth-and-diff", "check")
    assert json.loads((project.clone / "kvrelay.sarif").read_text())["version"] == "2.1.0"


def test_without_a_role_its_comment_says_what_it_means_beside_main(project: Project) -> None:
    project.commit("Less flow logs", {"network": {"flow_log_retention_days": 7}})
    runner = project.runner()
    runner.job("synth-and-diff", "diff")
    assert "Synthesize and diff against the target branch" in runner.ran
    assert "Diff against what is deployed" not in runner.ran
    assert "**in-place**: " in project.comment
    assert "`network.flow_log_retention_days`" in project.comment
    assert project.git("worktree", "list").count("\n") == 1


def test_main_is_deployed_once_its_plan_says_that_something_changes(project: Project) -> None:
    project.git("checkout", "--quiet", "main")
    bootstrap = ["cdk", "bootstrap", "--quiet", "--no-notices", "aws://123456789012/us-east-2"]
    path = f"{project.clone}/.venv/bin:{project.clone}/node_modules/.bin:{os.environ['PATH']}"
    project.runner().shell(" ".join(bootstrap), {**project.environment, "PATH": path})

    assert project.runner().job("deploy", "plan")["class"] != "nothing"
    project.runner().job("deploy", "deploy")
    stacks = project.aws.client("cloudformation").describe_stacks()["Stacks"]
    standing = {each["StackName"]: each["StackStatus"] for each in stacks}
    assert {standing[f"kvrelay-{each}"] for each in ("network", "cluster", "serving", "ci")} == {
        "CREATE_COMPLETE"
    }
    assert project.runner().job("deploy", "plan")["class"] == "nothing"


def test_with_a_role_the_same_comment_says_what_it_means_beside_what_is_deployed(project: Project) -> None:
    project.git("checkout", "--quiet", "change")
    project.commit("A larger system node", {"system_nodes": {"instance_type": "m7i.2xlarge"}})
    runner = project.runner(**{ROLE: "arn:aws:iam::123456789012:role/diff"})
    runner.job("synth-and-diff", "diff")
    assert "Diff against what is deployed" in runner.ran
    assert "**node-replacement**: " in project.comment


def test_drift_opens_an_issue_keeps_it_up_to_date_and_closes_it(project: Project) -> None:
    project.git("checkout", "--quiet", "main")
    logs = project.aws.client("logs")
    name = "/aws/eks/kvrelay/cluster"

    def retention(days: int) -> None:
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
        project.runner().job("drift", "drift")

    retention(30)
    assert project.forge.issues == []
    retention(1)
    assert "/RetentionInDays | 30 | 1 |" in project.forge.open_issues[0]["body"]
    retention(7)
    assert "/RetentionInDays | 30 | 7 |" in project.forge.open_issues[0]["body"]
    retention(30)
    assert [each["state"] for each in project.forge.issues] == ["closed"]


def test_gitlabs_jobs_do_the_same(project: Project) -> None:
    pipeline = yaml.safe_load((project.clone / "ci/gitlab-ci.yml").read_text().replace("!reference ", ""))
    project.git("checkout", "--quiet", "change")
    with running("gitlab") as gitlab:
        setup = pipeline[".setup"]["before_script"]
        for job in ("check", "diff-deployed", "drift"):
            environment = {**project.environment, **gitlab.environment, "PATH": os.environ["PATH"]}
            project.runner().shell("\n".join([*setup, *pipeline[job]["script"]]), environment)
        (note,) = gitlab.comments
        assert "**node-replacement**: " in note["body"]
        assert gitlab.issues == []
