"""The installation's settings, read from the environment and judged before anything starts (contract, "Settings")."""

import ipaddress
import os
import re
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from aiokafka.helpers import create_ssl_context

from topics.catalogue import Timestamps, with_namespace

Clock = Literal["wall", "log"]
"""`OBOL_CLOCK`: ticks from the wall clock, or only what `obol.clock` holds."""

EXIT_WRONG_SETTING: Final = 2

LOCAL_BOOTSTRAP_SERVERS: Final = "127.0.0.1:9092"
"""The broker that `make` starts."""

_KAFKA_PORT: Final = 9092
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY_PREFIXES: Final = ("KAFKA_SASL_", "KAFKA_SSL_")
_SASL_VARIABLES: Final = ("KAFKA_SASL_MECHANISM", "KAFKA_SASL_USERNAME", "KAFKA_SASL_PASSWORD")
_SSL_VARIABLES: Final = (
    "KAFKA_SSL_CAFILE",
    "KAFKA_SSL_CERTFILE",
    "KAFKA_SSL_KEYFILE",
    "KAFKA_SSL_PASSWORD",
    "KAFKA_SSL_CHECK_HOSTNAME",
)
_SECURITY_VARIABLES: Final = ("KAFKA_SECURITY_PROTOCOL", *_SASL_VARIABLES, *_SSL_VARIABLES)
_BOOLEANS: Final = {"1": True, "true": True, "0": False, "false": False}

Word = TypeVar("Word", bound=str)


class SettingError(ValueError):
    """A setting that the worker can't run with: one line that names the variable and the mend."""

    def __init__(self, variable: str, problem: str, mend: str) -> None:
        super().__init__(" ".join(f"{variable} {problem}; {mend}".split()))
        self.variable = variable


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """How clients prove themselves to the cluster."""

    protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the environment decides. Read it once with `from_env`; it never changes afterwards."""

    bootstrap_servers: tuple[str, ...] = (LOCAL_BOOTSTRAP_SERVERS,)
    croesus_host: str | None = None
    billing_enabled: bool = False
    billing_dry_run: bool = False
    redis_url: str | None = field(default=None, repr=False)
    namespace: str | None = None
    partitions: int = 8
    replication: int = 1
    currency: str = "JPY"
    timestamps: Timestamps = "broker"
    clock: Clock = "wall"
    commit_interval_ms: int = 100
    retention_h: int = 168
    http_host: str = "127.0.0.1"
    http_port: int = 6066
    http_token: str | None = field(default=None, repr=False)
    given_advertised_url: str | None = None
    given_data_dir: Path | None = None
    security: KafkaSecurity = KafkaSecurity()

    def __post_init__(self) -> None:
        """Refuse what only the settings together can be wrong about."""
        if self.billing_enabled and self.croesus_host is None:
            raise SettingError(
                "CROESUS_HOST",
                "is unset while DEDICATED_BILLING_ENABLED is on",
                "set it to the Croesus cluster's address, one of KAFKA_BOOTSTRAP_SERVERS",
            )
        if self.croesus_host is not None and self.croesus_host not in self.bootstrap_servers:
            raise SettingError(
                "CROESUS_HOST",
                f"is {self.croesus_host}, which is not in KAFKA_BOOTSTRAP_SERVERS ({','.join(self.bootstrap_servers)})",
                "name the same cluster in both: one transaction can't span two clusters",
            )
        if self.http_token is None and not _is_loopback(self.http_host):
            raise SettingError(
                "OBOL_HTTP_TOKEN",
                f"is unset while the web views listen on {self.http_host}, which is not a loopback address",
                "set a token, or OBOL_HTTP_HOST to 127.0.0.1",
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read and judge the contract's variables; an empty one is unset. Raises `SettingError`."""
        env = _Environment(environ)
        servers = env.get(
            "KAFKA_BOOTSTRAP_SERVERS", _servers, _servers("KAFKA_BOOTSTRAP_SERVERS", LOCAL_BOOTSTRAP_SERVERS)
        )
        return cls(
            bootstrap_servers=servers,
            croesus_host=env.get("CROESUS_HOST", _server, None),
            billing_enabled=env.get("DEDICATED_BILLING_ENABLED", _boolean, False),
            billing_dry_run=env.get("DEDICATED_BILLING_DRY_RUN", _boolean, False),
            redis_url=env.get("REDIS_URL", _redis_url, None),
            namespace=env.get("OBOL_NAMESPACE", _namespace, None),
            partitions=env.get("OBOL_PARTITIONS", _integer(1, 1_000), 8),
            replication=env.get("OBOL_REPLICATION", _integer(1, 100), 1),
            currency=env.get("OBOL_CURRENCY", _currency, "JPY"),
            timestamps=env.get("OBOL_TIMESTAMPS", _one_of("broker", "producer"), "broker"),
            clock=env.get("OBOL_CLOCK", _one_of("wall", "log"), "wall"),
            commit_interval_ms=env.get("OBOL_COMMIT_INTERVAL_MS", _integer(1, 10_000), 100),
            retention_h=env.get("OBOL_RETENTION_H", _integer(1, 87_600), 168),
            http_host=env.get("OBOL_HTTP_HOST", _host, "127.0.0.1"),
            http_port=env.get("OBOL_HTTP_PORT", _integer(1, 65_535), 6066),
            http_token=env.get("OBOL_HTTP_TOKEN", _token, None),
            given_advertised_url=env.get("OBOL_ADVERTISED_URL", _http_url, None),
            given_data_dir=env.get("OBOL_DATA_DIR", _data_dir, None),
            security=_security(env),
        )

    @classmethod
    def load_or_exit(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """`from_env`, for a process that starts: a wrong setting ends it with code 2 and its one line on stderr."""
        try:
            return cls.from_env(environ)
        except SettingError as error:
            print(error, file=sys.stderr)  # noqa: T201 - there is no log yet, and one line is the promise
            sys.exit(EXIT_WRONG_SETTING)

    def with_web(self, host: str | None = None, port: int | None = None) -> "Settings":
        """Let Faust's `--web-bind` and `--web-port` win, where they are given. Raises `SettingError`."""
        return replace(
            self,
            http_host=self.http_host if host is None else _host("OBOL_HTTP_HOST", host),
            http_port=self.http_port if port is None else _integer(1, 65_535)("OBOL_HTTP_PORT", str(port)),
        )

    @property
    def app_id(self) -> str:
        """Faust's app id, the consumer group, and the start of transactional ids."""
        return self.topic("obol")

    def topic(self, name: str) -> str:
        """Give a topic's full name in this installation."""
        return with_namespace(name, self.namespace)

    @property
    def advertised_url(self) -> str:
        """Where other workers reach this one's web views; without a slash at the end."""
        if self.given_advertised_url is not None:
            return self.given_advertised_url
        host = f"[{self.http_host}]" if ":" in self.http_host else self.http_host
        return f"http://{host}:{self.http_port}"

    @property
    def data_dir(self) -> Path:
        """The worker's own folder: by default one for each port, all under one ignored folder."""
        return self.given_data_dir or Path(".obol") / f"worker-{self.http_port}"

    def kafka_client_options(self) -> dict[str, Any]:
        """Keyword arguments for any of aiokafka's clients: how to reach the cluster and prove oneself to it."""
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "security_protocol": self.security.protocol,
        }
        if self.security.ssl_context is not None:
            options["ssl_context"] = self.security.ssl_context
        if self.security.protocol.startswith("SASL_"):
            options["sasl_mechanism"] = self.security.sasl_mechanism
            options["sasl_plain_username"] = self.security.sasl_username
            options["sasl_plain_password"] = self.security.sasl_password
        return options


Value = TypeVar("Value")
Default = TypeVar("Default")


class _Environment:
    """Variables read one at a time, each by a function that returns its value or raises `SettingError`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._set = {name: text.strip() for name, text in environ.items() if text.strip()}

    def __contains__(self, variable: str) -> bool:
        return variable in self._set

    def get(self, variable: str, read: Callable[[str, str], Value], default: Default) -> Value | Default:
        text = self._set.get(variable)
        return default if text is None else read(variable, text)

    def starting_with(self, *prefixes: str) -> list[str]:
        return sorted(name for name in self._set if name.startswith(prefixes))


def _boolean(variable: str, text: str) -> bool:
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise SettingError(variable, f"is {text!r}", "set it to 1, 0, true or false")
    return value


def _integer(low: int, high: int) -> Callable[[str, str], int]:
    def read(variable: str, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise SettingError(variable, f"is {text!r}", f"set it to a whole number from {low} to {high}")
        return int(text)

    return read


def _one_of(*words: Word) -> Callable[[str, str], Word]:
    def read(variable: str, text: str) -> Word:
        if text not in words:
            raise SettingError(variable, f"is {text!r}", f"set it to {_either(words)}")
        return text

    return read


def _server(variable: str, text: str) -> str:
    """`host`, `host:port` or `[v6]:port`, lower case, the port filled in, so that two of them compare."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or _KAFKA_PORT
    except ValueError:
        host, port, parts = None, 0, None
    if (
        host is None
        or parts is None
        or parts.netloc != text
        or "@" in text
        or not re.fullmatch(r"[A-Za-z0-9._:%-]+", host)
    ):
        raise SettingError(variable, f"has {text!r}", "write host:port, as in 127.0.0.1:9092")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _servers(variable: str, text: str) -> tuple[str, ...]:
    servers = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(_server(variable, server) for server in servers))


def _host(variable: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:%-]+", text):
        raise SettingError(variable, f"is {text!r}", "set it to a host name or an IP address without port or brackets")
    return text.lower()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(variable: str, text: str) -> str:
    if not re.fullmatch(r"[!-~]+", text):
        raise SettingError(variable, "can't stand in an HTTP header", "use printable ASCII without spaces")
    return text


def _redis_url(variable: str, text: str) -> str:
    parts = _split_url(text)
    if parts is None or not (
        (parts.scheme in {"redis", "rediss"} and parts.hostname) or (parts.scheme == "unix" and parts.path)
    ):
        raise SettingError(variable, "is no Redis URL", "write it as redis://127.0.0.1:6379/0, or unset it")
    return text


def _http_url(variable: str, text: str) -> str:
    parts = _split_url(text)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise SettingError(variable, f"is {text!r}", "write it as http://host:port, as other workers reach this one")
    return text.rstrip("/")


def _split_url(text: str) -> Any:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for a port that is no number, or too great
    except ValueError:
        return None
    return None if re.search(r"\s", text) else parts


def _namespace(variable: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise SettingError(
            variable, f"is {text!r}", "use letters, digits, '.', '_' and '-', a letter or digit first, at most 100"
        )
    return text


def _currency(variable: str, text: str) -> str:
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise SettingError(variable, f"is {text!r}", "set it to an ISO 4217 code, as JPY")
    return text


def _data_dir(variable: str, text: str) -> Path:
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise SettingError(
            variable, f"is {text!r}, which is not a folder", "name a folder that this worker may write to"
        )
    return path


def _secret(_: str, text: str) -> str:
    return text


def _file(variable: str, text: str) -> str:
    if not Path(text).is_file():
        raise SettingError(variable, f"is {text!r}, where there is no file", "name a PEM file that this user can read")
    return text


def _security(env: _Environment) -> KafkaSecurity:
    for variable in env.starting_with(*_SECURITY_PREFIXES):
        if variable not in _SECURITY_VARIABLES:
            raise SettingError(variable, "is unknown", f"unset it, or use {_either(_SECURITY_VARIABLES)}")
    protocol = env.get("KAFKA_SECURITY_PROTOCOL", _one_of(*_PROTOCOLS), "PLAINTEXT")
    _refuse_unused(env, protocol, "SASL", _SASL_VARIABLES)
    _refuse_unused(env, protocol, "SSL", _SSL_VARIABLES)
    username = env.get("KAFKA_SASL_USERNAME", _secret, None)
    password = env.get("KAFKA_SASL_PASSWORD", _secret, None)
    if protocol.startswith("SASL_"):
        for variable, value in (("KAFKA_SASL_USERNAME", username), ("KAFKA_SASL_PASSWORD", password)):
            if value is None:
                raise SettingError(variable, f"is unset while KAFKA_SECURITY_PROTOCOL is {protocol}", "set it")
    return KafkaSecurity(
        protocol=protocol,
        sasl_mechanism=env.get("KAFKA_SASL_MECHANISM", _one_of(*_MECHANISMS), "PLAIN"),
        sasl_username=username,
        sasl_password=password,
        ssl_context=_ssl_context(env) if protocol.endswith("SSL") else None,
    )


def _refuse_unused(env: _Environment, protocol: str, part: str, variables: tuple[str, ...]) -> None:
    """Refuse a password or certificate that would silently not be used: it is a mistake somewhere."""
    if part in protocol.split("_"):
        return
    for variable in variables:
        if variable in env:
            fitting = [name for name in _PROTOCOLS if part in name.split("_")]
            raise SettingError(
                variable,
                f"is set while KAFKA_SECURITY_PROTOCOL is {protocol}",
                f"set KAFKA_SECURITY_PROTOCOL to {_either(fitting)}, or unset it",
            )


def _ssl_context(env: _Environment) -> ssl.SSLContext:
    cafile = env.get("KAFKA_SSL_CAFILE", _file, None)
    certfile = env.get("KAFKA_SSL_CERTFILE", _file, None)
    keyfile = env.get("KAFKA_SSL_KEYFILE", _file, None)
    if keyfile is not None and certfile is None:
        raise SettingError("KAFKA_SSL_KEYFILE", "is set without KAFKA_SSL_CERTFILE", "set both, or unset it")
    try:
        # A key that needs a password would else be asked for on the terminal, and the worker would wait for ever.
        context: ssl.SSLContext = create_ssl_context(cafile=cafile)
        if certfile is not None:
            context.load_cert_chain(certfile, keyfile, env.get("KAFKA_SSL_PASSWORD", _secret, ""))
    except (OSError, ValueError) as error:
        variable = "KAFKA_SSL_CERTFILE" if certfile is not None else "KAFKA_SSL_CAFILE"
        raise SettingError(
            variable, f"can't be used ({error})", "check that the PEM files fit one another, and KAFKA_SSL_PASSWORD"
        ) from error
    context.check_hostname = env.get("KAFKA_SSL_CHECK_HOSTNAME", _boolean, True)
    return context


def _either(words: Any) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else str(last)
