"""CloudFormation as the cdk CLI uses it: change sets, stacks, events, rollback."""
