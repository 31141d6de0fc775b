"""The certificates of a local cluster."""

from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from kvrelay.local.kubernetes.certificates import Authority, service_account_keys


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_server_is_trusted_under_the_names_and_addresses_it_is_called_by(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = read(authority.server("kube-apiserver", ["127.0.0.1", "10.244.0.1"]).certificate)
    certificate.verify_directly_issued_by(read(authority.path))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.244.0.1"]


def test_a_client_is_the_user_and_group_of_its_certificate(tmp_path: Path) -> None:
    pair = Authority(tmp_path).client("system:kube-scheduler", "system:masters")
    subject = read(pair.certificate).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:kube-scheduler"
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    keys = [Authority(tmp_path).client("someone").key, service_account_keys(tmp_path).key]
    assert [key.stat().st_mode & 0o077 for key in keys] == [0, 0]
