"""A broker with two TLS listeners, for logins and for client certificates, which are created for the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tools.console import run
from tools.kafka_server import KafkaServer, java_home
from tools.packages import require
from tools.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

USER = "obol"
PASSWORD = "let-me-in"  # noqa: S105 - of a test's broker
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafkaServer(KafkaServer):
    """A broker that also has a listener for SASL_SSL, with PLAIN and SCRAM-SHA-512, and one for SSL.

    The first requires the password of `USER`, the second the client's certificate.
    """

    title: ClassVar[str] = "Kafka broker with logins"
    neighbouring_ports: ClassVar[int] = 4

    @property
    def with_password(self) -> str:
        """The address of the listener for logins."""
        return f"{LOOPBACK}:{self.port + 2}"

    @property
    def with_certificate(self) -> str:
        """The address of the listener for client certificates."""
        return f"{LOOPBACK}:{self.port + 3}"

    @property
    def certificate(self) -> Path:
        """The broker's self-signed certificate, as PEM."""
        return self.folder / "broker.pem"

    @property
    def client_certificate(self) -> Path:
        """A client's certificate and its key, encrypted with `PASSWORD`, as PEM."""
        return self.folder / "client-with-key.pem"

    def settings(self) -> dict[str, str]:
        """Return the settings of a plain broker, with two more listeners."""
        found = super().settings()
        more = f",LOGIN://{self.with_password},MUTUAL://{self.with_certificate}"
        found["listeners"] += more
        found["advertised.listeners"] += more
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "LOGIN": "SASL_SSL", "MUTUAL": "SSL"}
        login = "listener.name.login"
        return found | {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            f"{login}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{login}.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{PASSWORD}";',
            f"{login}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "listener.name.mutual.ssl.client.auth": "required",
            **_stores("keystore", self.folder / "broker.p12"),
            **_stores("truststore", self.folder / "trusted.p12"),
        }

    def prepare(self) -> Sequence[str]:
        """Create the certificates first."""
        if not self.client_certificate.exists():
            self._make_certificates()
        return super().prepare()

    def format_arguments(self) -> Sequence[str]:
        """Return the arguments that add the SCRAM user to the cluster's metadata."""
        return (f"--add-scram=SCRAM-SHA-512=[name={USER},password={PASSWORD}]",)

    def _make_certificates(self) -> None:
        broker, client = self._make_pair("broker", "-ext", f"SAN=ip:{LOOPBACK}"), self._make_pair("client")
        self._keytool("-exportcert", "-rfc", "-file", self.certificate, *_store(broker))
        alone, trusted = self.folder / "client.pem", self.folder / "trusted.p12"
        self._keytool("-exportcert", "-rfc", "-file", alone, *_store(client))
        self._keytool("-importcert", "-noprompt", "-file", alone, "-alias", "client", *_store(trusted))
        given, taken = ("-in", client, "-passin", f"pass:{PASSWORD}"), ("-passout", f"pass:{PASSWORD}")
        self._run(require("openssl", "openssl"), "pkcs12", *given, "-out", self.client_certificate, *taken)

    def _make_pair(self, name: str, *extensions: str) -> Path:
        store = self.folder / f"{name}.p12"
        subject = ("-keyalg", "EC", "-dname", f"CN={name}", "-ext", "bc=ca:true")
        self._keytool("-genkeypair", *subject, *extensions, *_store(store))
        return store

    def _keytool(self, *arguments: str | Path) -> None:
        self._run(java_home() / "bin" / "keytool", *arguments)

    def _run(self, *command: str | Path) -> None:
        run([str(word) for word in command], f"{self.title}: making certificates", self.folder / "certificates.log")


def _stores(kind: str, path: Path) -> dict[str, str]:
    return {f"ssl.{kind}.type": "PKCS12", f"ssl.{kind}.location": str(path), f"ssl.{kind}.password": PASSWORD}


def _store(path: Path) -> tuple[str | Path, ...]:
    return ("-keystore", path, "-storetype", "PKCS12", "-storepass", PASSWORD)
