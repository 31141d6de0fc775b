"""Every wrong deployment file gets one line for each fault: where, which value, and what would be right."""

from pathlib import Path

import pytest

from kvrelay.errors import InvalidFileError
from kvrelay.settings import read_deployment

GROUP = "gpu_nodes: {groups: [%s]}"

# file content: the lines that a user reads, after the file's name.
WRONG = {
    # The file itself
    "": ["holds 0 YAML documents; exactly one is needed"],
    "# nothing but a comment\n": ["holds 0 YAML documents; exactly one is needed"],
    "name: a\n---\nname: b\n": ["holds 2 YAML documents; exactly one is needed"],
    "- name\n": ["1: is not a mapping of settings; see deployment.yaml of the project"],
    "name: [\n": ["2: is not YAML: did not find expected node content"],
    "name: a\nname: b\n": ["2: names the key 'name' a second time; keep one of them"],
    "\tname: a\n": ["1: is not YAML: found character that cannot start any token"],
    "name: *nothing\n": ["1: refers to the anchor *nothing, which nothing above defines"],
    "name: !!python/name:os.system x\n": [
        "1: has the tag tag:yaml.org,2002:python/name:os.system, which is not plain data; remove it"
    ],
    "name: \x07\n": ["1: holds the character U+0007, which YAML does not allow; remove it"],
    # Unknown keys
    "nmae: a\n": ["1: nmae: 'a' is not a setting (did you mean name?); remove it or correct its name"],
    "network: {ciddr: 10.0.0.0/16}\n": [
        "1: network.ciddr: '10.0.0.0/16' is not a setting (did you mean cidr?); remove it or correct its name"
    ],
    GROUP % "{instance_typ: g6.8xlarge}": [
        "1: gpu_nodes.groups[0].instance_typ: 'g6.8xlarge' is not a setting (did you mean instance_type?); "
        "remove it or correct its name"
    ],
    "zzzz: 1\n": ["1: zzzz: 1 is not a setting; remove it or correct its name"],
    # name, account, region, zones
    "name: Prod\n": ["1: name: 'Prod' must be 1 to 30 lower-case letters, digits and dashes, a letter first"],
    "name: 7up\n": ["1: name: '7up' must be 1 to 30 lower-case letters, digits and dashes, a letter first"],
    "name: a-\n": ["1: name: 'a-' must be 1 to 30 lower-case letters, digits and dashes, a letter first"],
    f"name: {'a' * 31}\n": [
        f"1: name: '{'a' * 31}' must be 1 to 30 lower-case letters, digits and dashes, a letter first"
    ],
    "name: 12\n": ["1: name: 12 is read as a number or switch; write it in quotes"],
    "name: yes\n": ["1: name: True is read as a number or switch; write it in quotes"],
    "name: [a]\n": ["1: name: is a list; one text is needed"],
    "name:\n": ["1: name: is empty; write a value or leave the key out"],
    "account: 123456789012\n": ["1: account: 123456789012 is read as a number or switch; write it in quotes"],
    'account: "1234"\n': ["1: account: '1234' must be the 12 digits of an AWS account, in quotes"],
    "region: us-east2\n": ["1: region: 'us-east2' must be an AWS region such as us-east-2"],
    "region: eu-west-1\n": [
        "1: zones[0]: 'us-east-2a' is not in the region eu-west-1; name zones of that region"
    ],
    "zones: [us-east-2a]\n": ["1: zones: has 1 entries; at least 2 are needed"],
    "zones: us-east-2a\n": [
        "1: zones: 'us-east-2a' is wrong; a list is needed, in [brackets] or with a dash before each entry"
    ],
    "zones: [us-east-2a, us-east-2a]\n": [
        "1: zones[1]: 'us-east-2a' is named twice; name two different zones at least"
    ],
    "zones:\n  - us-east-2a\n  - us-west-2b\n": [
        "3: zones[1]: 'us-west-2b' is not in the region us-east-2; name zones of that region"
    ],
    "zones: [us-east-2a, use2-az2]\n": [
        "1: zones[1]: 'use2-az2' must be an Availability Zone such as us-east-2a"
    ],
    "zones: [us-east-2b, us-east-2c]\n": [
        "1: gpu_nodes.zone: 'us-east-2a' is not among zones (us-east-2b, us-east-2c); add it there"
    ],
    # network
    "network: {cidr: 10.0.0.0}\n": [
        "1: network.cidr: '10.0.0.0' is too small for the nodes and pods it must hold; use /16 to /22"
    ],
    "network: {cidr: 10.0.0.1/16}\n": [
        "1: network.cidr: '10.0.0.1/16' is not an IPv4 range; write one such as 10.0.0.0/16"
    ],
    "network: {cidr: ten}\n": ["1: network.cidr: 'ten' is not an IPv4 range; write one such as 10.0.0.0/16"],
    "network: {cidr: 10.0.0.0/8}\n": [
        "1: network.cidr: '10.0.0.0/8' is larger than a VPC may be; use /16 to /22"
    ],
    "network: {cidr: 10.0.0.0/24}\n": [
        "1: network.cidr: '10.0.0.0/24' is too small for the nodes and pods it must hold; use /16 to /22"
    ],
    "network: {cidr: 8.8.0.0/16}\n": [
        "1: network.cidr: '8.8.0.0/16' is a public range; "
        "use one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10"
    ],
    "network: {cidr: 172.17.0.0/16}\n": [
        "1: network.cidr: '172.17.0.0/16' overlaps 172.17.0.0/16, which the nodes' container runtime uses; "
        "use another range"
    ],
    'network: {cidr: "fd00::/16"}\n': [
        "1: network.cidr: 'fd00::/16' is not an IPv4 range; write one such as 10.0.0.0/16"
    ],
    "network: {cidr: 10.0.0.0/22}\ngpu_nodes: {groups: [{count: 8}]}\n": [
        "1: network.cidr: '10.0.0.0/22' gives each private subnet 235 usable addresses; "
        "the nodes of us-east-2a and their pods may take 570; use a larger range, /20 or wider"
    ],
    "network: {nat_gateways: two}\n": [
        "1: network.nat_gateways: 'two' is not one of the choices; use 'one' or 'one-per-zone'"
    ],
    "network: {interface_endpoints: [s3]}\n": [
        "1: network.interface_endpoints[0]: 's3' is not one of the choices; use 'ecr-api', 'ecr-docker', "
        "'sts', 'ec2', 'eks', 'eks-auth', 'logs' or 'secrets-manager'"
    ],
    "network: {interface_endpoints: [sts, sts]}\n": [
        "1: network.interface_endpoints[1]: 'sts' is named twice; name it once"
    ],
    "network: {flow_log_retention_days: 2}\n": [
        "1: network.flow_log_retention_days: 2 is not one of the choices; "
        "use 1, 3, 7, 14, 30, 60, 90, 180 or 365"
    ],
    # cluster
    "cluster: {kubernetes_version: 1.36}\n": [
        "1: cluster.kubernetes_version: 1.36 is read as a number or switch; write it in quotes; use '1.36'"
    ],
    'cluster: {kubernetes_version: "1.29"}\n': [
        "1: cluster.kubernetes_version: '1.29' is not one of the choices; use '1.36'"
    ],
    "cluster: {public_access_cidrs: [203.0.113.7/33]}\n": [
        "1: cluster.public_access_cidrs[0]: '203.0.113.7/33' is not an IPv4 range; "
        "write one such as 203.0.113.7/32"
    ],
    "cluster: {public_access_cidrs: [10.1.0.0/16]}\n": [
        "1: cluster.public_access_cidrs[0]: '10.1.0.0/16' is a private range, "
        "which reaches the private endpoint anyway; remove it"
    ],
    "cluster: {admins: [platform]}\n": [
        "1: cluster.admins[0]: 'platform' must be an IAM role or user such as "
        "arn:aws:iam::123456789012:role/admin"
    ],
    "cluster:\n  admins:\n    - arn:aws:iam::123456789012:role/a\n    - arn:aws:iam::123456789012:role/a\n": [
        "4: cluster.admins[1]: 'arn:aws:iam::123456789012:role/a' is named twice; name it once"
    ],
    # nodes
    "system_nodes: {instance_type: g6.8xlarge}\n": [
        "1: system_nodes.instance_type: 'g6.8xlarge' has GPUs that system pods would leave idle; "
        "use a type without, such as m7i.xlarge"
    ],
    "system_nodes: {instance_type: m9x.large}\n": [
        "1: system_nodes.instance_type: 'm9x.large' is not known; did you mean m7i.large or m7a.large or m6i.large?"
    ],
    "system_nodes: {count: 0}\n": ["1: system_nodes.count: 0 is too small; use 1 or more"],
    "system_nodes: {root_volume_gib: 5}\n": [
        "1: system_nodes.root_volume_gib: 5 is too small; use 20 or more"
    ],
    "gpu_nodes: {zone: us-east-2c}\n": [
        "1: gpu_nodes.zone: 'us-east-2c' is not among zones (us-east-2a, us-east-2b); add it there"
    ],
    "gpu_nodes: {groups: []}\n": ["1: gpu_nodes.groups: has 0 entries; at least 1 are needed"],
    "gpu_nodes: {placement_group: maybe}\n": [
        "1: gpu_nodes.placement_group: 'maybe' is wrong; true or false is needed"
    ],
    GROUP % "{count: 0}": ["1: gpu_nodes.groups[0].count: 0 is too small; use 1 or more"],
    GROUP % "{count: -1}": ["1: gpu_nodes.groups[0].count: -1 is too small; use 1 or more"],
    GROUP % "{count: 1001}": ["1: gpu_nodes.groups[0].count: 1001 is too large; use 1000 or less"],
    GROUP % "{count: two}": ["1: gpu_nodes.groups[0].count: 'two' is wrong; a whole number is needed"],
    GROUP % "{count: 1.5}": ["1: gpu_nodes.groups[0].count: 1.5 is wrong; a whole number is needed"],
    GROUP % "{count: true}": ["1: gpu_nodes.groups[0].count: True is wrong; a whole number is needed"],
    GROUP % "{count: 4, max_count: 2}": [
        "1: gpu_nodes.groups[0].max_count: 2 is less than count 4; raise it"
    ],
    GROUP % "{instance_type: g6.xlarge}": [
        "1: gpu_nodes.groups[0].instance_type: 'g6.xlarge' has no EFA; the smallest of its family with EFA is "
        "g6.8xlarge"
    ],
    GROUP % "{instance_type: m7i.xlarge}": [
        "1: gpu_nodes.groups[0].instance_type: 'm7i.xlarge' has no GPU; use a GPU type with EFA such as g6.8xlarge"
    ],
    GROUP % "{instance_type: g6.9xlarge}": [
        "1: gpu_nodes.groups[0].instance_type: 'g6.9xlarge' is not known; "
        "did you mean g6.xlarge or g6e.xlarge or g6.8xlarge?"
    ],
    GROUP % "{root_volume_gib: 20}": [
        "1: gpu_nodes.groups[0].root_volume_gib: 20 is too small; use 100 or more"
    ],
    GROUP % "{roles: [prefill]}": [
        "1: gpu_nodes.groups: the role decode is in no group; name it in exactly one group's roles"
    ],
    GROUP % "{roles: [prefill, prefill]}": [
        "1: gpu_nodes.groups[0].roles: names prefill twice; name each role once"
    ],
    GROUP % "{roles: [prefil, decode]}": [
        "1: gpu_nodes.groups[0].roles[0]: 'prefil' is not one of the choices; use 'prefill' or 'decode'"
    ],
    GROUP % "{name: a}, {name: b}": [
        "1: gpu_nodes.groups: the role prefill is in 2 groups (a, b); name it in exactly one group's roles"
    ],
    GROUP % "{name: a, roles: [prefill]}, {name: a, roles: [decode]}": [
        "1: gpu_nodes.groups[1].name: 'a' is the first group's name too; give each its own"
    ],
    # capacity
    GROUP % "{capacity: spot}": [
        "1: gpu_nodes.groups[0].capacity: 'spot' is wrong; a mapping of keys to values is needed"
    ],
    GROUP % "{capacity: {type: reserved}}": [
        "1: gpu_nodes.groups[0].capacity.type: 'reserved' is not one of the choices; "
        "use 'on-demand', 'spot', 'reservation' or 'capacity-block'"
    ],
    GROUP % "{capacity: {}}": [
        "1: gpu_nodes.groups[0].capacity: needs the key 'type', which says what it is"
    ],
    GROUP % "{capacity: {type: reservation}}": [
        "1: gpu_nodes.groups[0].capacity.reservation_id: is missing; add it"
    ],
    GROUP % "{capacity: {type: reservation, reservation_id: cr-12}}": [
        "1: gpu_nodes.groups[0].capacity.reservation_id: 'cr-12' must be a capacity reservation such as "
        "cr-0123456789abcdef0"
    ],
    GROUP % "{capacity: {type: spot, reservation_id: cr-0123456789abcdef0}}": [
        "1: gpu_nodes.groups[0].capacity.reservation_id: 'cr-0123456789abcdef0' is not a setting; "
        "remove it or correct its name"
    ],
    # serving
    "serving: {namespace: kube-system}\n": [
        "1: serving.namespace: 'kube-system' belongs to Kubernetes; "
        "choose a namespace of your own, such as inference"
    ],
    "serving: {namespace: In_ference}\n": [
        "1: serving.namespace: 'In_ference' must be 1 to 63 lower-case letters, digits and dashes"
    ],
    f"serving: {{service_name: {'a' * 48}}}\n": [
        f"1: serving.service_name: '{'a' * 48}' must be 1 to 47 lower-case letters, digits and dashes, "
        "a letter first"
    ],
    "serving: {image: ray}\n": [
        "1: serving.image: 'ray' must be registry/repository with a :tag or @sha256:digest"
    ],
    "serving: {image: 'public.ecr.aws/a/ray:latest'}\n": [
        "1: serving.image: 'public.ecr.aws/a/ray:latest' uses the tag latest, which changes under a running "
        "service; name a version or digest"
    ],
    "serving: {weights: {source: s3, bucket: models, prefix: /a/}}\n": [
        "1: serving.weights.prefix: '/a/' must be a folder in the bucket without slashes around it, "
        "such as models/qwen3.5-9b"
    ],
    "serving: {weights: {source: ftp}}\n": [
        "1: serving.weights.source: 'ftp' is not one of the choices; use 'hugging-face' or 's3'"
    ],
    "serving: {upgrade: rolling}\n": [
        "1: serving.upgrade: 'rolling' is not one of the choices; use 'in-place' or 'surge'"
    ],
    # images
    "images: {mirror: ecr}\n": [
        "1: images.mirror: 'ecr' needs the account that holds the images; add account: with its 12 digits"
    ],
    "images: {mirror: harbor}\n": [
        "1: images.mirror: 'harbor' is not one of the choices; use 'none', 'ecr' or 'pull-through'"
    ],
    "account: '123456789012'\nimages: {mirror: pull-through}\nname: a--b\n": [
        "3: name: 'a--b' can't begin a pull-through rule's prefix; use 25 characters at most, "
        "without two dashes in a row"
    ],
    "account: '123456789012'\nimages: {mirror: pull-through}\nserving: {image: 'ghcr.io/a/ray:v1'}\n": [
        "3: serving.image: 'ghcr.io/a/ray:v1' is in a registry that ECR can't cache without credentials; "
        "set images.mirror: ecr, or none"
    ],
    GROUP % "{image_pull: lazy}": [
        "1: gpu_nodes.groups[0].image_pull: 'lazy' is not one of the choices; use 'parallel' or 'sequential'"
    ],
    # tags and acknowledgements
    "tags: {'aws:team': a}\n": [
        "1: tags.aws:team: 'a' has a key that begins with aws:, which belongs to AWS; rename it"
    ],
    "tags: {team: a*b}\n": [
        "1: tags.team: 'a*b' may hold letters, digits, spaces and _ . : / = + - @ only; rewrite it"
    ],
    "tags: {cost-center: 12}\n": [
        "1: tags.cost-center: 12 is read as a number or switch; write it in quotes"
    ],
    "acknowledge: {KV003: ok}\n": [
        "1: acknowledge.KV003: 'ok' is no reason; write in a few words why you accept this finding"
    ],
    "acknowledge: {all: we know better}\n": [
        "1: acknowledge.all: 'all' must be a rule's number such as KV003"
    ],
    # Several at once
    "name: A\nregion: x\ntags: {team: 1}\n": [
        "1: name: 'A' must be 1 to 30 lower-case letters, digits and dashes, a letter first",
        "2: region: 'x' must be an AWS region such as us-east-2",
        "3: tags.team: 1 is read as a number or switch; write it in quotes",
    ],
}


@pytest.mark.parametrize(("content", "lines"), WRONG.items())
def test_a_wrong_deployment_gets_one_line_for_each_fault(
    tmp_path: Path, content: str, lines: list[str]
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(content)

    with pytest.raises(InvalidFileError) as error:
        read_deployment(file)

    told = [line.removeprefix(str(file)).lstrip(": ") for line in error.value.lines]
    assert told == lines


def test_at_least_sixty_wrong_files_are_tried() -> None:
    assert len(WRONG) >= 60


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"absent\.yaml: can't be read: No such file or directory"):
        read_deployment(tmp_path / "absent.yaml")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_bytes(b"name: a\nregion: \xff\xfe\n")
    with pytest.raises(InvalidFileError, match=r"deployment\.yaml:2: is not UTF-8 text; save it as UTF-8"):
        read_deployment(file)
