"""What cdk-nag, cfn-lint and CloudFormation's own validation say of the templates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import cfnlint.api
import pytest

if TYPE_CHECKING:
    from tests.stacks.conftest import Cdk, Synthesized

REPOSITORY = Path(__file__).parents[2]

# One more of these is one more thing that a reviewer must believe: raise the number with the reason in the diff.
# Two of them are CDK's own, about flow logs.
ACKNOWLEDGED = 17

ACCEPTED_BY_CFN_LINT = {
    "W3005": "CDK names a role both in DependsOn and by GetAtt; neither is wrong",
    "W3010": "zones are named on purpose: nodes must never move",
}

# Every setting that adds a resource, at once.
EVERYTHING = (
    "network: {nat_gateways: one-per-zone, interface_endpoints: [ecr-api, ecr-docker, sts, ec2, eks, eks-auth, "
    "logs, secrets-manager]}\n"
    "cluster: {public_access_cidrs: [203.0.113.7/32], admins: ['arn:aws:iam::123456789012:role/a']}\n"
    "gpu_nodes:\n  placement_group: true\n  groups:\n"
    "    - {name: prefill, roles: [prefill], instance_type: p5.48xlarge, count: 1}\n"
    "    - {name: decode, roles: [decode], instance_type: g6e.12xlarge, count: 3, max_count: 4}\n"
)

MIRRORED = "account: '123456789012'\nimages: {mirror: %s}\n"

CI = "ci: {type: %s}\n"
FROM_BUCKET = "serving: {weights: {source: s3, bucket: my-weights, prefix: models/qwen}}\n"
FROM_SECRET = "serving: {weights: {source: hugging-face, token_secret_name: hugging-face/token}}\n"


@pytest.mark.parametrize(
    "overrides",
    [
        "name: kvrelay\n",
        EVERYTHING + FROM_BUCKET + MIRRORED % "ecr" + CI % "github, repository: team@11/model@22",
        FROM_SECRET + MIRRORED % "pull-through" + CI % "gitlab, project: team/serving/model",
        CI % "github, repository: team/model, oidc_provider: existing",
    ],
)
def test_cdk_nag_finds_nothing_but_what_is_acknowledged(tmp_path: Path, overrides: str) -> None:
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from app import build, new_app
    from kvrelay.settings import read_deployment

    (tmp_path / "serve_configs").symlink_to(REPOSITORY / "serve_configs")
    (tmp_path / "deployment.yaml").write_text(overrides)
    app = new_app(
        context=json.loads((REPOSITORY / "cdk.json").read_text())["context"], outdir=str(tmp_path / "out")
    )
    build(app, read_deployment(tmp_path / "deployment.yaml"))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()

    report = json.loads((tmp_path / "out" / "validation-report.json").read_text())
    checked = {each["pluginName"] for each in report["pluginReports"]}
    assert "AwsSolutions" in checked
    assert [each for plugin in report["pluginReports"] for each in plugin["violations"]] == []


def test_acknowledgements_are_counted(reference: Synthesized, capsys: pytest.CaptureFixture[str]) -> None:
    rules = sorted(
        f"{path}: {rule}"
        for path, entries in reference.metadata.items()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for rule in entry["data"]
    )
    with capsys.disabled():
        print(f"\n{len(rules)} findings acknowledged")  # noqa: T201 - the count is meant to be seen
    assert len(rules) == ACKNOWLEDGED, "\n".join(rules)


@pytest.mark.parametrize(
    "overrides",
    [
        "name: kvrelay\n",
        EVERYTHING + FROM_BUCKET + MIRRORED % "ecr" + CI % "github, repository: team@11/model@22",
        FROM_SECRET + MIRRORED % "pull-through" + CI % "gitlab, project: team/serving/model",
        CI % "github, repository: team/model, oidc_provider: existing",
    ],
)
def test_cfn_lint_finds_nothing(synth: Callable[[str], Synthesized], overrides: str) -> None:
    for template in synth(overrides).templates.values():
        found = cfnlint.api.lint(json.dumps(template), regions=["us-east-2"])
        assert [str(each) for each in found if each.rule.id not in ACCEPTED_BY_CFN_LINT] == []


def test_cdks_own_validation_finds_nothing(cdk: Cdk) -> None:
    result = cdk("synth", "--quiet", "--strict", CDK_VALIDATION="true")
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stdout + result.stderr


@pytest.mark.parametrize("validation", ["true", "false"])
def test_a_mended_finding_is_reported_no_more(cdk: Cdk, tmp_path: Path, validation: str) -> None:
    serve, deployment = tmp_path / "serve.yaml", tmp_path / "deployment.yaml"
    right = (REPOSITORY / "serve_configs" / "qwen3.5-9b.yaml").read_text()
    connector = "kv_connector: NixlConnector"
    serve.write_text(right.replace(connector, f"{connector}\n            engine_id: prefill"))
    deployment.write_text("serving: {serve_config: serve.yaml}\n")

    broken = cdk("synth", "--quiet", "-c", f"deployment={deployment}", CDK_VALIDATION="true")
    assert broken.returncode != 0
    assert "KV001" in broken.stdout + broken.stderr

    serve.write_text(right)
    mended = cdk("synth", "--quiet", "-c", f"deployment={deployment}", CDK_VALIDATION=validation)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "KV001" not in mended.stdout + mended.stderr
