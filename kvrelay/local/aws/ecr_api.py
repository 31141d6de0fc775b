"""The ECR operations that moto lacks: pull-through cache rules."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, Account
from kvrelay.local.aws.errors import AwsError

Values = dict[str, Any]

# Upstream registries that need no credentials, by their URL.
_OPEN = {"public.ecr.aws": "ecr-public", "quay.io": "quay", "registry.k8s.io": "k8s"}


class EcrApi:
    """The operations, in one region. A rule fetches nothing: there is no registry behind it here."""

    def __init__(self, account: Account, region: str) -> None:
        self._rules = account.pull_through_rules.setdefault(region, {})

    def operation(self, name: str) -> Callable[[Values], Values] | None:
        """The method for an operation's name; None for those that moto answers."""
        return {
            "CreatePullThroughCacheRule": self.create_pull_through_cache_rule,
            "DeletePullThroughCacheRule": self.delete_pull_through_cache_rule,
            "DescribePullThroughCacheRules": self.describe_pull_through_cache_rules,
        }.get(name)

    def create_pull_through_cache_rule(self, given: Values) -> Values:
        """A prefix whose repositories are fetched from elsewhere."""
        prefix, upstream = given["ecrRepositoryPrefix"], given["upstreamRegistryUrl"]
        if prefix in self._rules:
            raise AwsError(
                "PullThroughCacheRuleAlreadyExistsException",
                f"A pull through cache rule with the prefix '{prefix}' already exists",
            )
        if upstream not in _OPEN and "credentialArn" not in given:
            raise AwsError(
                "UnsupportedUpstreamRegistryException",
                f"The upstream registry '{upstream}' needs credentials",
            )
        self._rules[prefix] = {
            "ecrRepositoryPrefix": prefix,
            "upstreamRegistryUrl": upstream,
            "upstreamRegistry": given.get("upstreamRegistry") or _OPEN.get(upstream, ""),
            "registryId": ACCOUNT_ID,
            "createdAt": datetime.now(UTC),
        }
        return self._rules[prefix]

    def delete_pull_through_cache_rule(self, given: Values) -> Values:
        """Removes the rule; what it fetched stays."""
        return self._rules.pop(self._known(given["ecrRepositoryPrefix"]))

    def describe_pull_through_cache_rules(self, given: Values) -> Values:
        """Rules, all or by prefix."""
        prefixes = given.get("ecrRepositoryPrefixes") or list(self._rules)
        return {"pullThroughCacheRules": [self._rules[self._known(prefix)] for prefix in prefixes]}

    def _known(self, prefix: str) -> str:
        if prefix not in self._rules:
            raise AwsError(
                "PullThroughCacheRuleNotFoundException",
                f"No pull through cache rule has the prefix '{prefix}'",
            )
        return prefix
