"""The roles of CI pipelines: who may take them, and how little they may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cfnlint.api
import pytest

from kvrelay.errors import UserError
from kvrelay.settings import read_deployment

if TYPE_CHECKING:
    from tests.stacks.conftest import Synthesized

REPOSITORY = Path(__file__).parents[2]
GITHUB = "ci: {type: github, repository: team@11/model@22}\n"
GITLAB = "ci: {type: gitlab, project: team/serving/model}\n"
EXISTING = "ci: {type: github, repository: team/model, oidc_provider: existing}\n"
Synth = Callable[[str], "Synthesized"]


def test_a_deployment_that_names_no_repository_has_no_such_roles(reference: Synthesized) -> None:
    assert set(reference.templates) == {"Network", "Cluster", "Serving"}


def test_each_github_role_trusts_its_own_kind_of_job_of_one_repository(synth: Synth) -> None:
    assert _subjects(synth(GITHUB)) == {
        "Diff": ["repo:team@11/model@22:pull_request", "repo:team@11/model@22:ref:refs/heads/main"],
        "Drift": ["repo:team@11/model@22:ref:refs/heads/main"],
        "Deploy": ["repo:team@11/model@22:environment:production"],
    }


def test_a_github_role_is_never_matched_by_pattern(synth: Synth) -> None:
    for conditions in _conditions(synth(GITHUB)).values():
        assert list(conditions) == ["StringEquals"]
        assert conditions["StringEquals"]["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"


def test_each_gitlab_role_trusts_one_project_and_deploys_one_branch(synth: Synth) -> None:
    assert _subjects(synth(GITLAB)) == {
        "Diff": ["project_path:team/serving/model:ref_type:branch:ref:*"],
        "Drift": ["project_path:team/serving/model:ref_type:branch:ref:main"],
        "Deploy": ["project_path:team/serving/model:ref_type:branch:ref:main"],
    }


def test_branch_environment_and_host_are_the_users(synth: Synth) -> None:
    github = _subjects(
        synth("ci: {type: github, repository: team/model, branch: release, environment: live}\n")
    )
    assert github["Drift"] == ["repo:team/model:ref:refs/heads/release"]
    assert github["Deploy"] == ["repo:team/model:environment:live"]
    own = synth("ci: {type: gitlab, project: a/b, host: git.example.com}\n")
    provider = own.only("AWS::IAM::OIDCProvider", "Ci")
    assert provider["Url"] == "https://git.example.com"
    assert provider["ClientIdList"] == ["https://git.example.com"]


def test_the_diff_role_reads_templates_of_this_deployment_and_nothing_else(synth: Synth) -> None:
    ((actions, resources),) = _allowed(synth(GITHUB), "Diff")
    assert set(actions) == {"cloudformation:DescribeStacks", "cloudformation:GetTemplate"}
    assert {each["Fn::Join"][1][-1] for each in resources} == {
        f":stack/kvrelay-{each}/*" for each in ("network", "cluster", "serving", "ci")
    }


def test_the_drift_role_takes_the_lookup_role_only(synth: Synth) -> None:
    assert _assumed(synth(GITHUB), "Drift") == {"lookup"}


def test_the_deploy_role_takes_cdks_own_roles_only(synth: Synth) -> None:
    assert _assumed(synth(GITHUB), "Deploy") == {"deploy", "file-publishing", "lookup"}


def test_an_accounts_provider_is_used_where_it_exists(synth: Synth) -> None:
    result = synth(EXISTING)
    assert not result.of_type("AWS::IAM::OIDCProvider")
    for role in result.of_type("AWS::IAM::Role", "Ci").values():
        principal = role["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Federated"]
        assert json.dumps(principal).endswith(':oidc-provider/token.actions.githubusercontent.com"]]}')


def test_the_roles_are_told_as_outputs(synth: Synth) -> None:
    assert set(synth(GITHUB).templates["Ci"]["Outputs"]) == {"DiffRoleArn", "DriftRoleArn", "DeployRoleArn"}


@pytest.mark.parametrize("overrides", [GITHUB, GITLAB])
def test_cfn_lint_finds_nothing(synth: Synth, overrides: str) -> None:
    template = json.dumps(synth(overrides).templates["Ci"])
    assert [str(each) for each in cfnlint.api.lint(template, regions=["us-east-2"])] == []


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("{type: github, repository: team}", "ci.repository: 'team' must be owner/name"),
        ("{type: github, repository: 'team/*'}", "ci.repository: 'team/*' must be owner/name"),
        ("{type: github, repository: team/model, branch: '*'}", "ci.branch: '*' must be one branch"),
        ("{type: github, repository: team/model, environment: 'a:b'}", "ci.environment: 'a:b' must be"),
        ("{type: gitlab, project: model}", "ci.project: 'model' must be a project's full path"),
        ("{type: gitlab, project: a/b, host: 'https://x.y'}", "ci.host: 'https://x.y' must be a host name"),
        ("{type: jenkins}", "ci.type: 'jenkins' is not one of the choices; use 'github' or 'gitlab'"),
    ],
)
def test_a_wrong_repository_is_one_line(tmp_path: Path, settings: str, line: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(f"ci: {settings}\n")
    with pytest.raises(UserError) as error:
        read_deployment(file)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def _roles(result: Synthesized) -> dict[str, dict[str, Any]]:
    return {
        each["Properties"]["Description"].removeprefix("kvrelay CI: ").title(): each["Properties"]
        for each in result.of_type("AWS::IAM::Role", "Ci").values()
    }


def _conditions(result: Synthesized) -> dict[str, dict[str, Any]]:
    found = {}
    for name, role in _roles(result).items():
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
        found[name] = statement["Condition"]
    return found


def _subjects(result: Synthesized) -> dict[str, list[str]]:
    return {
        name: value
        for name, conditions in _conditions(result).items()
        for keys in conditions.values()
        for key, value in keys.items()
        if key.endswith(":sub")
    }


def _allowed(result: Synthesized, role: str) -> list[tuple[list[str], list[Any]]]:
    (logical_id,) = (
        name
        for name, each in result.of_type("AWS::IAM::Role", "Ci").items()
        if each["Properties"] == _roles(result)[role]
    )
    statements = [
        statement
        for policy in result.of_type("AWS::IAM::Policy", "Ci").values()
        if {"Ref": logical_id} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert all(each["Effect"] == "Allow" for each in statements)
    return [(_list(each["Action"]), _list(each["Resource"])) for each in statements]


def _assumed(result: Synthesized, role: str) -> set[str]:
    ((actions, resources),) = _allowed(result, role)
    assert actions == ["sts:AssumeRole"]
    texts = [each["Fn::Sub"] for each in resources]
    head = "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/cdk-hnb659fds-"
    tail = "-role-${AWS::AccountId}-${AWS::Region}"
    assert all(each.startswith(head) and each.endswith(tail) for each in texts)
    return {each.removeprefix(head).removesuffix(tail) for each in texts}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
