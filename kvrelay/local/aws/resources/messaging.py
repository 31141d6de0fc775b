"""SNS topics and SQS queues."""

import json
from typing import Any

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Topic(Handler):
    """AWS::SNS::Topic."""

    type = "AWS::SNS::Topic"
    _ATTRIBUTES = ("DisplayName", "KmsMasterKeyId", "SignatureVersion", "TracingConfig")

    def create(self, request: Request) -> Made:
        wanted = request.properties
        name = wanted.get("TopicName") or request.name(250)
        arn = request.client("sns").create_topic(Name=name, Tags=request.tag_list())["TopicArn"]
        request.physical_id, request.attributes = arn, {"TopicArn": arn, "TopicName": name}
        for subscription in wanted.get("Subscription") or ():
            request.client("sns").subscribe(
                TopicArn=arn, Protocol=subscription["Protocol"], Endpoint=subscription["Endpoint"]
            )
        return self.update(request)

    def update(self, request: Request) -> Made:
        client = request.client("sns")
        for key in self._ATTRIBUTES:
            if request.properties.get(key) != request.previous.get(key):
                client.set_topic_attributes(
                    TopicArn=request.physical_id,
                    AttributeName=key,
                    AttributeValue=str(request.properties.get(key, "")),
                )
        if request.tags():
            client.tag_resource(ResourceArn=request.physical_id, Tags=request.tag_list())
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        client = request.client("sns")
        for row in client.list_subscriptions()["Subscriptions"]:
            if row["TopicArn"] == request.physical_id and request.properties.get("Subscription"):
                client.unsubscribe(SubscriptionArn=row["SubscriptionArn"])
        client.delete_topic(TopicArn=request.physical_id)


@handles
class TopicPolicy(Handler):
    """AWS::SNS::TopicPolicy."""

    type = "AWS::SNS::TopicPolicy"

    def create(self, request: Request) -> Made:
        request.physical_id = request.name()
        return self.update(request)

    def update(self, request: Request) -> Made:
        for topic in request.properties["Topics"]:
            request.client("sns").set_topic_attributes(
                TopicArn=topic,
                AttributeName="Policy",
                AttributeValue=json.dumps(request.properties["PolicyDocument"]),
            )
        return Made(request.physical_id, {"Id": request.physical_id})

    def delete(self, request: Request) -> None:
        # The default policy comes back with the topic's own deletion; nothing else remains.
        return None


@handles
class Subscription(Handler):
    """AWS::SNS::Subscription."""

    type = "AWS::SNS::Subscription"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        attributes: dict[str, Any] = {}
        if "FilterPolicy" in wanted:
            attributes["FilterPolicy"] = json.dumps(wanted["FilterPolicy"])
        if "RawMessageDelivery" in wanted:
            attributes["RawMessageDelivery"] = str(wanted["RawMessageDelivery"]).lower()
        arn = request.client("sns").subscribe(
            TopicArn=wanted["TopicArn"],
            Protocol=wanted["Protocol"],
            Endpoint=wanted["Endpoint"],
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    def delete(self, request: Request) -> None:
        request.client("sns").unsubscribe(SubscriptionArn=request.physical_id)


@handles
class Queue(Handler):
    """AWS::SQS::Queue."""

    type = "AWS::SQS::Queue"
    _ATTRIBUTES = (
        "DelaySeconds",
        "KmsMasterKeyId",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
        "RedrivePolicy",
        "SqsManagedSseEnabled",
        "VisibilityTimeout",
    )

    def create(self, request: Request) -> Made:
        wanted = request.properties
        if wanted.get("FifoQueue"):
            raise ResourceFailedError("AWS::SQS::Queue: FifoQueue is not emulated")
        name = wanted.get("QueueName") or request.name(80)
        url = request.client("sqs").create_queue(
            QueueName=name, Attributes=self._values(request), tags=request.tags()
        )["QueueUrl"]
        arn = f"arn:aws:sqs:{request.region}:{url.split('/')[-2]}:{name}"
        return Made(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})

    def update(self, request: Request) -> Made:
        request.client("sqs").set_queue_attributes(
            QueueUrl=request.physical_id, Attributes=self._values(request)
        )
        return Made(request.physical_id, request.attributes)

    def _values(self, request: Request) -> dict[str, str]:
        wanted = request.properties
        return {
            key: json.dumps(wanted[key]) if isinstance(wanted[key], dict | bool) else str(wanted[key])
            for key in self._ATTRIBUTES
            if key in wanted
        }

    def delete(self, request: Request) -> None:
        request.client("sqs").delete_queue(QueueUrl=request.physical_id)


@handles
class QueuePolicy(Handler):
    """AWS::SQS::QueuePolicy."""

    type = "AWS::SQS::QueuePolicy"

    def create(self, request: Request) -> Made:
        request.physical_id = request.name()
        return self.update(request)

    def update(self, request: Request) -> Made:
        for queue in request.properties["Queues"]:
            request.client("sqs").set_queue_attributes(
                QueueUrl=queue, Attributes={"Policy": json.dumps(request.properties["PolicyDocument"])}
            )
        return Made(request.physical_id, {"Id": request.physical_id})

    def delete(self, request: Request) -> None:
        for queue in request.properties["Queues"]:
            request.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
