"""A broker of its own that also listens for those who log in over TLS, with a certificate made for the occasion."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, ClassVar

from tools.kafka_server import KafkaServer, java_home
from tools.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

USER = "obol"
PASSWORD = "let me in"  # noqa: S105 - of a broker that lives as long as a test
_STORE_PASSWORD = "keystore"  # noqa: S105 - the same
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafkaServer(KafkaServer):
    """Two ports above the plain listener is one for SASL_SSL: PLAIN and SCRAM-SHA-512, user `USER`."""

    title: ClassVar[str] = "Kafka broker with logins"
    neighbouring_ports: ClassVar[int] = 3

    @property
    def secured(self) -> str:
        """Address for those who log in."""
        return f"{LOOPBACK}:{self.port + 2}"

    @property
    def certificate(self) -> Path:
        """The broker's certificate, which has signed itself, as PEM."""
        return self.folder / "broker.pem"

    def settings(self) -> dict[str, str]:
        """The plain broker's, and a second listener."""
        found = super().settings()
        found["listeners"] += f",SECURED://{self.secured}"
        found["advertised.listeners"] += f",SECURED://{self.secured}"
        scoped = "listener.name.secured"
        return found | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            f"{scoped}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{scoped}.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{PASSWORD}";',
            f"{scoped}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            f"{scoped}.ssl.keystore.type": "PKCS12",
            f"{scoped}.ssl.keystore.location": str(self._make_keystore()),
            f"{scoped}.ssl.keystore.password": _STORE_PASSWORD,
        }

    def format_arguments(self) -> Sequence[str]:
        """The user of SCRAM is kept in the cluster's metadata."""
        return (f"--add-scram=SCRAM-SHA-512=[name={USER},password={PASSWORD}]",)

    def _make_keystore(self) -> Path:
        store = self.folder / "broker.p12"
        keytool = str(java_home() / "bin" / "keytool")
        common = ["-keystore", str(store), "-storepass", _STORE_PASSWORD, "-alias", "broker"]
        pair = ["-keyalg", "EC", "-dname", "CN=broker", "-ext", f"SAN=ip:{LOOPBACK}", "-ext", "bc=ca:true"]
        for command in (
            [keytool, "-genkeypair", "-storetype", "PKCS12", *common, *pair],
            [keytool, "-exportcert", "-rfc", "-file", str(self.certificate), *common],
        ):
            subprocess.run(command, check=True, capture_output=True)
        return store
