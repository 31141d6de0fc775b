"""Programs that run in the child process of an emulated Lambda function."""
