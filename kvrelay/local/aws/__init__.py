"""An AWS on loopback that the real `cdk` CLI deploys to: moto's resource state under a CloudFormation of our own."""
