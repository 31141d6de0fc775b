// Runs one invocation of a Node handler: event on stdin, result into the file named by KVRELAY_RESULT.
"use strict";
const fs = require("fs");
const http = require("http");
const https = require("https");
const path = require("path");

// CDK's handlers answer to https on the response URL's host, whatever its scheme and port were.
const request = https.request;
https.request = (options, ...rest) =>
  options.hostname === "localhost" && !options.port
    ? http.request({ ...options, port: process.env.KVRELAY_PORT }, ...rest)
    : request(options, ...rest);

const end = Date.now() + 1000 * Number(process.env.KVRELAY_TIMEOUT);
const context = {
  functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
  functionVersion: "$LATEST",
  invokedFunctionArn: process.env.KVRELAY_FUNCTION_ARN,
  memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
  awsRequestId: process.env.KVRELAY_REQUEST_ID,
  logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
  logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
  getRemainingTimeInMillis: () => Math.max(0, end - Date.now()),
};

function finish(result) {
  fs.writeFileSync(process.env.KVRELAY_RESULT, JSON.stringify(result));
  process.exit(0);
}

function fail(error) {
  console.error(error);
  finish({
    error: {
      errorMessage: String(error?.message ?? error),
      errorType: error?.name ?? "Error",
      trace: String(error?.stack ?? error).split("\n"),
    },
  });
}

async function main() {
  const [, file, name] = process.env._HANDLER.match(/^(.*)\.([^.]+)$/);
  const handler = require(path.resolve(process.env.LAMBDA_TASK_ROOT, file))[name];
  const event = JSON.parse(fs.readFileSync(0, "utf8"));
  if (handler.length > 2) {
    handler(event, context, (error, payload) => (error ? fail(error) : finish({ payload: payload ?? null })));
    return;
  }
  finish({ payload: (await handler(event, context)) ?? null });
}

main().catch(fail);
