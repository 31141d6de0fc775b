"""CDK constructs: each builds one piece of the AWS side."""
