"""kvrelay data refresh: the shipped files come out of AWS's answers again, byte for byte but the date."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner
from moto import mock_aws

from kvrelay.data import reading
from kvrelay.data.command import HERE, data
from kvrelay.data.refresh import on_demand_price, wanted_types, write_prices


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        yield


def without_date(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("date:")]


def test_refresh_writes_the_shipped_files_again(aws: None, tmp_path: Path) -> None:
    result = CliRunner().invoke(data, ["refresh", "--into", str(tmp_path)])
    assert result.exit_code == 0, result.output
    shipped = sorted((HERE / "instance_types").iterdir())
    assert [path.name for path in sorted((tmp_path / "instance_types").iterdir())] == [
        path.name for path in shipped
    ]
    for path in shipped:
        written = (tmp_path / "instance_types" / path.name).read_text()
        assert without_date(written) == without_date(path.read_text()), path.name


def test_refresh_names_what_the_region_lacks(
    aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = dict(reading.load("wanted.yaml"))
    wanted["types"] = {**wanted["types"], "zz9": ["large"]}
    monkeypatch.setattr("kvrelay.data.refresh.load", lambda name: wanted)
    result = CliRunner().invoke(data, ["refresh", "--into", str(tmp_path)])
    assert "not offered in us-east-1, left out: zz9.large" in result.output


def product(*prices: tuple[str, str]) -> str:
    """One product of the price list, as the Price List API words it."""
    dimensions = {
        str(index): {"unit": unit, "pricePerUnit": {"USD": usd}} for index, (unit, usd) in enumerate(prices)
    }
    return json.dumps({"terms": {"OnDemand": {"term": {"priceDimensions": dimensions}}}})


@pytest.mark.parametrize(
    ("answer", "usd"),
    [
        ([], None),
        ([product(("Hrs", "2.0144000000"))], 2.0144),
        ([product(("Hrs", "0.0000000000"))], None),
        ([product(("Quantity", "7")), product(("Hrs", "3.5"))], 3.5),
        ([json.dumps({"terms": {}})], None),
    ],
)
def test_a_price_is_the_hourly_one_or_none(answer: list[str], usd: float | None) -> None:
    pricing: Any = boto3.client(
        "pricing", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    with Stubber(pricing) as stub:
        stub.add_response("get_products", {"PriceList": answer})
        assert on_demand_price(pricing, "us-east-2", "g6.8xlarge") == usd


def test_prices_are_written_in_the_order_of_the_types(tmp_path: Path) -> None:
    names = list(wanted_types())[:6]
    path = write_prices("us-east-2", dict.fromkeys(reversed(names), 1.0), tmp_path, "2026-11-30")
    lines = [line.strip().partition(":")[0] for line in path.read_text().splitlines()]
    assert [line for line in lines if line in names] == names


def test_a_refused_call_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    result = CliRunner().invoke(data, ["refresh", "--into", str(tmp_path)])
    assert "AWS did not answer" in str(result.exception)
    assert "\n" not in str(result.exception)
