"""The installation's settings, read from the environment and checked before anything starts (contract, "Settings")."""

import ipaddress
import os
import re
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args
from urllib.parse import SplitResult, unquote, urlsplit

from aiokafka.helpers import create_ssl_context
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from streams.redaction import keep_out_of_logs
from topics.catalogue import Timestamps, with_namespace

Clock = Literal["wall", "log"]
"""`OBOL_CLOCK`: ticks are written by the wall clock, or come only from `obol.clock`."""

EXIT_WRONG_SETTING: Final = 2

LOCAL_BOOTSTRAP_SERVERS: Final = "127.0.0.1:9092"
"""The broker that `make` starts."""

_KAFKA_PORT: Final = 9092
_HOURS_A_DAY: Final = 24
_USERNAME: Final = "KAFKA_SASL_USERNAME"
_PASSWORD: Final = "KAFKA_SASL_PASSWORD"  # noqa: S105 - a variable's name
_TOKEN_LENGTHS: Final = range(16, 1_025)
_HOST: Final = r"[A-Za-z0-9._:%-]+"
_BOOLEANS: Final = {"1": True, "true": True, "0": False, "false": False}
_Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
_Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SettingError(Exception):
    """A setting that the worker can't run with: one line that names the variable, the problem and the fix."""

    def __init__(self, variable: str, problem: str, fix: str) -> None:
        super().__init__(" ".join(f"{variable} {problem}; {fix}".split()))
        self.variable = variable


# A validator's error becomes part of the message, so that of a secret must not quote it. The field has the fix.


def _server(text: str) -> str:
    """`host`, `host:port` or `[v6]:port`, lower case, the port filled in, so that two of them compare."""
    parts = _split(f"//{text}")
    if parts is None or parts.netloc != text or "@" in text or not re.fullmatch(_HOST, parts.hostname or ""):
        raise ValueError(f"has {text!r}")
    return f"{f'[{parts.hostname}]' if '[' in text else parts.hostname}:{parts.port or _KAFKA_PORT}"


def _servers(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(_server(server.strip()) for server in value.split(",")))


def _token(secret: SecretStr) -> SecretStr:
    if len(secret) not in _TOKEN_LENGTHS:
        raise ValueError(f"has {len(secret)} characters")
    if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
        raise ValueError("can't be written in an HTTP header")
    return secret


def _redis_url(secret: SecretStr) -> SecretStr:
    parts = _split(secret.get_secret_value())
    if parts is None or not (
        (parts.scheme in {"redis", "rediss"} and parts.hostname) or (parts.scheme == "unix" and parts.path)
    ):
        raise ValueError("is not a Redis URL")
    return secret


def _http_url(text: str) -> str:
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"is {text!r}")
    return text.rstrip("/")


def _split(url: str) -> SplitResult | None:
    """Return the URL's parts; None where it has white space, or a port that is not a number or too great."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises
    except ValueError:
        return None
    return None if re.search(r"\s", url) else parts


def _folder(path: Path) -> Path:
    path = path.expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError(f"is {str(path)!r}, which is not a folder")
    return path


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError(f"is {text!r}, where there is no file")
    return text


Boolean = Annotated[StrictBool, BeforeValidator(lambda value: _BOOLEANS.get(str(value).lower(), value))]
Integer = Annotated[
    StrictInt, BeforeValidator(lambda value: int(value) if re.fullmatch(r"[0-9]{1,9}", str(value)) else value)
]
Server = Annotated[str, AfterValidator(_server)]
Servers = Annotated[tuple[str, ...], BeforeValidator(_servers)]
PemFile = Annotated[str, AfterValidator(_file)]


def _variable(name: str, fix: str, default: Any = None, **constraints: Any) -> Any:
    """Declare a setting: its environment variable, the fix in the message for an invalid value, and its default."""
    return Field(default, validation_alias=name, description=fix, **constraints)


def _switch(name: str, *, default: bool = False) -> Any:
    return _variable(name, "set it to 1, 0, true or false", default)


def _number(name: str, default: int, low: int, high: int) -> Any:
    return _variable(name, f"set it to a whole number from {low} to {high}", default, ge=low, le=high)


def _choice(name: str, choices: Any) -> Any:
    """Declare one of several words, the first of which is the default."""
    return _variable(name, f"set it to {_either(get_args(choices))}", get_args(choices)[0])


def _either(words: Any) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else str(last)


class _Variables(BaseModel):
    """Settings, each read from one environment variable. An empty variable counts as unset."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def read(cls, environ: Mapping[str, str], **values: Any) -> Self:
        """Read the variables that `environ` has; `values` are settings of no variable. Raises `SettingError`."""
        return cls._checked({name: text.strip() for name, text in environ.items() if text.strip()} | values)

    def having(self, **values: Any) -> Self:
        """Return the same settings but for `values`, given by field. Raises `SettingError`."""
        return self._checked(dict(self) | values, by_name=True)

    @classmethod
    def _checked(cls, values: Mapping[str, Any], *, by_name: bool = False) -> Self:
        try:
            return cls.model_validate(values, by_name=by_name, by_alias=not by_name)
        except ValidationError as error:
            first = error.errors()[0]
            wrong = first["loc"][0]
        field = next(one for name, one in cls.model_fields.items() if wrong in {name, one.validation_alias})
        problem = first.get("ctx", {}).get("error", f"is {first['input']!r}")
        raise SettingError(str(field.validation_alias), str(problem), str(field.description))


class KafkaSecurity(_Variables):
    """How clients prove themselves to the cluster: `KAFKA_SECURITY_PROTOCOL`, `KAFKA_SASL_*`, `KAFKA_SSL_*`."""

    protocol: _Protocol = _choice("KAFKA_SECURITY_PROTOCOL", _Protocol)
    sasl_mechanism: _Mechanism = _choice("KAFKA_SASL_MECHANISM", _Mechanism)
    sasl_username: str | None = _variable(_USERNAME, "set it")
    sasl_password: SecretStr | None = _variable(_PASSWORD, "set it")
    ssl_cafile: PemFile | None = _variable("KAFKA_SSL_CAFILE", "name a PEM file that this user can read")
    ssl_certfile: PemFile | None = _variable("KAFKA_SSL_CERTFILE", "name a PEM file that this user can read")
    ssl_keyfile: PemFile | None = _variable("KAFKA_SSL_KEYFILE", "name a PEM file that this user can read")
    ssl_password: SecretStr = _variable("KAFKA_SSL_PASSWORD", "set it", SecretStr(""))
    ssl_check_hostname: Boolean = _switch("KAFKA_SSL_CHECK_HOSTNAME", default=True)
    _ssl_context: ssl.SSLContext | None = PrivateAttr(None)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read and check the variables; one that looks like theirs and is none of them is wrong, too."""
        known = [str(field.validation_alias) for field in cls.model_fields.values()]
        for name in sorted(environ):
            if name.startswith(("KAFKA_SASL_", "KAFKA_SSL_")) and name not in known and environ[name].strip():
                raise SettingError(name, "is unknown", f"unset it, or use {_either(known)}")
        return cls.read(environ)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, field in type(self).model_fields.items():
            part = name.partition("_")[0].upper()
            if name in self.model_fields_set and part in {"SASL", "SSL"} and part not in self.protocol.split("_"):
                # A password or certificate that would silently not be used is a mistake somewhere.
                fitting = [protocol for protocol in get_args(_Protocol) if part in protocol.split("_")]
                raise SettingError(
                    str(field.validation_alias),
                    f"is set while KAFKA_SECURITY_PROTOCOL is {self.protocol}",
                    f"set KAFKA_SECURITY_PROTOCOL to {_either(fitting)}, or unset it",
                )
        if self.protocol.startswith("SASL_"):
            for variable, value in ((_USERNAME, self.sasl_username), (_PASSWORD, self.sasl_password)):
                if value is None:
                    raise SettingError(variable, f"is unset while KAFKA_SECURITY_PROTOCOL is {self.protocol}", "set it")
        if self.protocol.endswith("SSL"):
            self._ssl_context = self._make_ssl_context()
        return self

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """What encrypts the connections; None where nothing does."""
        return self._ssl_context

    def _make_ssl_context(self) -> ssl.SSLContext:
        if self.ssl_keyfile is not None and self.ssl_certfile is None:
            raise SettingError("KAFKA_SSL_KEYFILE", "is set without KAFKA_SSL_CERTFILE", "set both, or unset it")
        try:
            context: ssl.SSLContext = create_ssl_context(cafile=self.ssl_cafile)
            if self.ssl_certfile is not None:
                # Without a password, OpenSSL would ask for one on the terminal, and the worker would wait for ever.
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, self.ssl_password.get_secret_value())
        except (OSError, ValueError) as error:
            raise SettingError(
                "KAFKA_SSL_CAFILE" if self.ssl_certfile is None else "KAFKA_SSL_CERTFILE",
                f"can't be used ({error})",
                "check that the PEM files fit one another, and KAFKA_SSL_PASSWORD",
            ) from error
        context.check_hostname = self.ssl_check_hostname
        return context


class Settings(_Variables):
    """Everything that the environment decides. Read it once with `from_env`; it never changes afterwards."""

    bootstrap_servers: Servers = _variable(
        "KAFKA_BOOTSTRAP_SERVERS", "write host:port, as in 127.0.0.1:9092", (LOCAL_BOOTSTRAP_SERVERS,)
    )
    croesus_host: Server | None = _variable("CROESUS_HOST", "write host:port, as in 127.0.0.1:9092")
    billing_enabled: Boolean = _switch("DEDICATED_BILLING_ENABLED")
    billing_dry_run: Boolean = _switch("DEDICATED_BILLING_DRY_RUN")
    redis_url: Annotated[SecretStr, AfterValidator(_redis_url)] | None = _variable(
        "REDIS_URL", "write it as redis://127.0.0.1:6379/0, or unset it"
    )
    namespace: str | None = _variable(
        "OBOL_NAMESPACE",
        "use letters, digits, '.', '_' and '-', a letter or digit first, at most 100",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z",
    )
    partitions: Integer = _number("OBOL_PARTITIONS", 8, 1, 1_000)
    replication: Integer = _number("OBOL_REPLICATION", 1, 1, 100)
    currency: str = _variable("OBOL_CURRENCY", "set it to an ISO 4217 code, as JPY", "JPY", pattern=r"^[A-Z]{3}\z")
    timestamps: Timestamps = _choice("OBOL_TIMESTAMPS", Timestamps)
    clock: Clock = _choice("OBOL_CLOCK", Clock)
    commit_interval_ms: Integer = _number("OBOL_COMMIT_INTERVAL_MS", 100, 1, 10_000)
    retention_h: Integer = _number("OBOL_RETENTION_H", 168, 1, 87_600)
    id_retention_d: Integer = _number("OBOL_ID_RETENTION_D", 400, 1, 36_500)
    http_host: str = _variable(
        "OBOL_HTTP_HOST",
        "set it to a host name or an IP address without port or brackets",
        "127.0.0.1",
        pattern=rf"^{_HOST}\z",
    )
    http_port: Integer = _number("OBOL_HTTP_PORT", 6066, 1, 65_535)
    http_token: Annotated[SecretStr, AfterValidator(_token)] | None = _variable(
        "OBOL_HTTP_TOKEN",
        f"use {_TOKEN_LENGTHS[0]} to {_TOKEN_LENGTHS[-1]} printable ASCII characters without spaces",
    )
    http_forward_insecure: Boolean = _switch("OBOL_HTTP_FORWARD_INSECURE")
    given_advertised_url: Annotated[str, AfterValidator(_http_url)] | None = _variable(
        "OBOL_ADVERTISED_URL", "write it as http://host:port, as other workers reach this one"
    )
    given_data_dir: Annotated[Path, AfterValidator(_folder)] | None = _variable(
        "OBOL_DATA_DIR", "name a folder that this worker may write to"
    )
    security: KafkaSecurity = KafkaSecurity()

    @model_validator(mode="after")
    def _check(self) -> Self:
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
        if self.id_retention_d * _HOURS_A_DAY < self.retention_h:
            raise SettingError(
                "OBOL_ID_RETENTION_D",
                f"is {self.id_retention_d} days, which is shorter than OBOL_RETENTION_H ({self.retention_h} hours)",
                f"set it to at least {-(-self.retention_h // _HOURS_A_DAY)}",
            )
        if self.http_token is None and not is_loopback(self.http_host):
            raise SettingError(
                "OBOL_HTTP_TOKEN",
                f"is unset while the web views listen on {self.http_host}, which is not a loopback address",
                "set a token, or OBOL_HTTP_HOST to 127.0.0.1",
            )
        return self

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read and check the contract's variables; an empty one is unset. Raises `SettingError`."""
        return cls.read(environ, security=KafkaSecurity.from_env(environ))

    @classmethod
    def load_or_exit(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """`from_env`, for a process that starts: a wrong setting ends it with code 2 and its one line on stderr.

        From then on the process keeps the secrets among them out of its logs.
        """
        try:
            settings = cls.from_env(environ)
        except SettingError as error:
            print(error, file=sys.stderr)  # noqa: T201 - there is no log yet, and one line is the promise
            sys.exit(EXIT_WRONG_SETTING)
        keep_out_of_logs(settings.secrets)
        return settings

    def with_web(self, host: str | None = None, port: int | None = None) -> Self:
        """Let Faust's `--web-bind` and `--web-port` win, where they are given. Raises `SettingError`."""
        given = {name: value for name, value in (("http_host", host), ("http_port", port)) if value is not None}
        return self.having(**given)

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

    @property
    def secrets(self) -> list[str]:
        """What no log may show: passwords, the token; the password of a URL as it is there, and decoded."""
        given = (self.http_token, self.security.sasl_password, self.security.ssl_password)
        found = [secret.get_secret_value() for secret in given if secret is not None]
        if self.redis_url is not None and (password := urlsplit(self.redis_url.get_secret_value()).password):
            found += [password, unquote(password)]
        return found

    def kafka_client_options(self) -> dict[str, Any]:
        """Keyword arguments for any of aiokafka's clients: how to reach the cluster and prove oneself to it."""
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "security_protocol": self.security.protocol,
        }
        if self.security.ssl_context is not None:
            options["ssl_context"] = self.security.ssl_context
        if self.security.sasl_password is not None:
            options["sasl_mechanism"] = self.security.sasl_mechanism
            options["sasl_plain_username"] = self.security.sasl_username
            options["sasl_plain_password"] = self.security.sasl_password.get_secret_value()
        return options


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine, reached without a network."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
