"""kvrelay data: what kvrelay knows about instance types and prices, and how to renew it from AWS."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from kvrelay.errors import UserError

HERE = Path(__file__).parent


@click.group()
def data() -> None:
    """Instance types, prices and versions that kvrelay reads at synth."""


@data.command()
@click.option("--region", default="us-east-1", show_default=True, help="Region to ask for instance types.")
@click.option("--prices", "price_regions", multiple=True, help="Region whose instance prices to renew.")
@click.option(
    "--into", type=click.Path(path_type=Path), default=HERE, help="Folder to write, for a trial run."
)
def refresh(region: str, price_regions: tuple[str, ...], into: Path) -> None:
    """Rewrite instance types, and prices of the regions named, from AWS's API.

    Needs credentials that may call ec2:DescribeInstanceTypes and pricing:GetProducts.
    Review the change with git diff before you commit it.
    """
    # Imported here: nothing but this command needs an AWS client.
    import boto3
    import botocore.exceptions

    from kvrelay.data import refresh as renew

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    wanted = renew.wanted_types()
    try:
        described = renew.describe(boto3.client("ec2", region_name=region), wanted)
        files = renew.write_instance_types(described, into / "instance_types", today)
        # The Price List API answers in three regions only, for all of them.
        pricing = boto3.client("pricing", region_name="us-east-1") if price_regions else None
        for priced in price_regions:
            found = {name: usd for name in wanted if (usd := renew.on_demand_price(pricing, priced, name))}
            files.append(renew.write_prices(priced, found, into / "prices", today))
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise UserError(f"AWS did not answer: {error}; check credentials and --region") from None
    missing = [name for name in wanted if name not in described]
    click.echo(f"wrote {len(files)} files; {len(described)} instance types")
    if missing:
        click.echo(f"not offered in {region}, left out: {', '.join(missing)}")
