"""The settings, each variable with what is right, what is wrong, and the line that says so."""

import ssl
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.rules.context import Switches
from streams.settings import LOCAL_BOOTSTRAP_SERVERS, SettingError, Settings

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test

DEFAULTS = {
    "bootstrap_servers": ("127.0.0.1:9092",),
    "croesus_host": None,
    "billing_enabled": False,
    "billing_dry_run": False,
    "redis_url": None,
    "namespace": None,
    "partitions": 8,
    "replication": 1,
    "currency": "JPY",
    "timestamps": "broker",
    "clock": "wall",
    "commit_interval_ms": 100,
    "retention_h": 168,
    "id_retention_d": 400,
    "http_host": "127.0.0.1",
    "http_port": 6066,
    "http_token": None,
    "http_forward_insecure": False,
    "advertised_url": "http://127.0.0.1:6066",
    "data_dir": Path(".obol/worker-6066"),
    "app_id": "obol",
}


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_defaults(name: str, value: object) -> None:
    assert getattr(Settings.from_env({}), name) == value
    assert getattr(Settings(), name) == value


GOOD = [
    ("KAFKA_BOOTSTRAP_SERVERS", "k1:9092, k2:9093", "bootstrap_servers", ("k1:9092", "k2:9093")),
    ("KAFKA_BOOTSTRAP_SERVERS", "K1,k1:9092", "bootstrap_servers", ("k1:9092",)),
    ("KAFKA_BOOTSTRAP_SERVERS", "[::1]:9094", "bootstrap_servers", ("[::1]:9094",)),
    ("CROESUS_HOST", LOCAL_BOOTSTRAP_SERVERS, "croesus_host", "127.0.0.1:9092"),
    ("CROESUS_HOST", "127.0.0.1", "croesus_host", "127.0.0.1:9092"),
    ("DEDICATED_BILLING_ENABLED", "0", "billing_enabled", False),
    ("DEDICATED_BILLING_ENABLED", "False", "billing_enabled", False),
    ("DEDICATED_BILLING_DRY_RUN", "1", "billing_dry_run", True),
    ("DEDICATED_BILLING_DRY_RUN", "TRUE", "billing_dry_run", True),
    ("REDIS_URL", "redis://127.0.0.1:6379/2", "redis_url", SecretStr("redis://127.0.0.1:6379/2")),
    ("REDIS_URL", "rediss://u:p@cache", "redis_url", SecretStr("rediss://u:p@cache")),
    ("REDIS_URL", "unix:///run/redis.sock", "redis_url", SecretStr("unix:///run/redis.sock")),
    ("OBOL_NAMESPACE", "team-a.test_1", "app_id", "team-a.test_1.obol"),
    ("OBOL_PARTITIONS", "1", "partitions", 1),
    ("OBOL_PARTITIONS", "1000", "partitions", 1_000),
    ("OBOL_REPLICATION", "3", "replication", 3),
    ("OBOL_CURRENCY", "EUR", "currency", "EUR"),
    ("OBOL_TIMESTAMPS", "producer", "timestamps", "producer"),
    ("OBOL_CLOCK", "log", "clock", "log"),
    ("OBOL_COMMIT_INTERVAL_MS", "1", "commit_interval_ms", 1),
    ("OBOL_RETENTION_H", "1", "retention_h", 1),
    ("OBOL_ID_RETENTION_D", "7", "id_retention_d", 7),
    ("OBOL_ID_RETENTION_D", "36500", "id_retention_d", 36_500),
    ("OBOL_HTTP_HOST", "::1", "advertised_url", "http://[::1]:6066"),
    ("OBOL_HTTP_HOST", "localhost", "http_host", "localhost"),
    ("OBOL_HTTP_PORT", "65535", "data_dir", Path(".obol/worker-65535")),
    ("OBOL_HTTP_TOKEN", "0123456789abcdef", "http_token", SecretStr("0123456789abcdef")),
    ("OBOL_HTTP_TOKEN", "!" * 1_024, "http_token", SecretStr("!" * 1_024)),
    ("OBOL_HTTP_FORWARD_INSECURE", "1", "http_forward_insecure", True),
    ("OBOL_ADVERTISED_URL", "https://obol-1.internal/", "advertised_url", "https://obol-1.internal"),
    ("OBOL_DATA_DIR", "/var/lib/obol", "data_dir", Path("/var/lib/obol")),
]


@pytest.mark.parametrize(("variable", "text", "name", "value"), GOOD)
def test_right(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(Settings.from_env({variable: text}), name) == value
    assert getattr(Settings.from_env({variable: f" {text} "}), name) == value


VARIABLES = sorted({row[0] for row in GOOD})


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("text", ["", "  "])
def test_empty_is_unset(variable: str, text: str) -> None:
    assert Settings.from_env({variable: text}) == Settings()


WRONG = [
    ("KAFKA_BOOTSTRAP_SERVERS", [",", "k1,", "http://k1:9092", "k1:port", "k1:99999", "a b:1", "u@k1:9092", "k1/x"]),
    ("CROESUS_HOST", ["elsewhere:9092", "127.0.0.1:9093", "127.0.0.1:9092,127.0.0.1:9092"]),
    ("DEDICATED_BILLING_ENABLED", ["yes", "on", "2", "tru"]),
    ("DEDICATED_BILLING_DRY_RUN", ["no", "-1"]),
    ("REDIS_URL", ["127.0.0.1:6379", "http://127.0.0.1", "redis://", "redis://h:port", "redis://h\nx"]),
    ("OBOL_NAMESPACE", [".a", "a/b", "a b", "é", "x" * 101]),
    ("OBOL_PARTITIONS", ["0", "1001", "-1", "8.0", "eight", "1e2", "٨", "1_000"]),
    ("OBOL_REPLICATION", ["0", "x"]),
    ("OBOL_CURRENCY", ["jpy", "YEN!", "JP", "JPYX"]),
    ("OBOL_TIMESTAMPS", ["Broker", "CreateTime"]),
    ("OBOL_CLOCK", ["walls"]),
    ("OBOL_COMMIT_INTERVAL_MS", ["0", "10001", "0.1"]),
    ("OBOL_RETENTION_H", ["0", "-168", "7d"]),
    ("OBOL_ID_RETENTION_D", ["0", "36501", "400d", "6"]),
    ("OBOL_HTTP_HOST", ["http://127.0.0.1", "a b", "[::1]"]),
    ("OBOL_HTTP_PORT", ["0", "65536", "http"]),
    (
        "OBOL_HTTP_TOKEN",
        ["t", "0123456789abcde", "0123456789abcdef é", "0123456789\nabcdef", "0123456789 abcdef", "!" * 1_025],
    ),
    ("OBOL_HTTP_FORWARD_INSECURE", ["yes"]),
    ("OBOL_ADVERTISED_URL", ["obol:6066", "ftp://obol", "http://", "http://h:x", "http://h/?q", "http://h/ x"]),
    ("KAFKA_SECURITY_PROTOCOL", ["ssl", "TLS"]),
]


@pytest.mark.parametrize(("variable", "text"), [(variable, text) for variable, texts in WRONG for text in texts])
def test_wrong(variable: str, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings.from_env({variable: text})
    line = str(caught.value)
    assert line.startswith(f"{variable} ")
    assert "; " in line
    assert "\n" not in line


def test_every_variable_of_the_contract_is_in_both_tables() -> None:
    no_wrong_value = {"OBOL_DATA_DIR"}  # any path will do, but for a file: below
    assert {variable for variable, _ in WRONG} | no_wrong_value == {*VARIABLES, "KAFKA_SECURITY_PROTOCOL"}


def test_a_data_dir_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(SettingError, match="OBOL_DATA_DIR"):
        Settings.from_env({"OBOL_DATA_DIR": str(path)})


def live(settings: Settings) -> bool:
    """What the engine makes of the two switches."""
    return Switches(settings.billing_enabled, settings.billing_dry_run).live


def test_b20_billing_needs_the_croesus_host() -> None:
    with pytest.raises(SettingError, match=r"^CROESUS_HOST is unset while DEDICATED_BILLING_ENABLED is on; set it"):
        Settings.from_env({"DEDICATED_BILLING_ENABLED": "1"})
    settings = Settings.from_env({"DEDICATED_BILLING_ENABLED": "1", "CROESUS_HOST": "127.0.0.1:9092"})
    assert live(settings)


def test_b21_a_dry_run_is_not_live() -> None:
    env = {"DEDICATED_BILLING_ENABLED": "1", "DEDICATED_BILLING_DRY_RUN": "1", "CROESUS_HOST": "127.0.0.1:9092"}
    assert not live(Settings.from_env(env))
    assert not live(Settings.from_env({"DEDICATED_BILLING_DRY_RUN": "1"}))


def test_the_croesus_host_is_one_of_the_servers() -> None:
    servers = {"KAFKA_BOOTSTRAP_SERVERS": "k1:9092,K2:9093"}
    assert Settings.from_env(servers | {"CROESUS_HOST": "k2:9093"}).croesus_host == "k2:9093"
    with pytest.raises(SettingError, match=r"CROESUS_HOST is k2:9092, which is not in KAFKA_BOOTSTRAP_SERVERS \(k1"):
        Settings.from_env(servers | {"CROESUS_HOST": "k2"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "obol-1.internal"])  # noqa: S104 - must be refused
def test_an_open_address_needs_a_token(host: str) -> None:
    with pytest.raises(SettingError, match=r"^OBOL_HTTP_TOKEN is unset while the web views listen on"):
        Settings.from_env({"OBOL_HTTP_HOST": host})
    assert Settings.from_env({"OBOL_HTTP_HOST": host, "OBOL_HTTP_TOKEN": TOKEN}).http_host == host


def test_ids_are_remembered_at_least_as_long_as_rows() -> None:
    """169 hours are more than 7 days."""
    assert Settings.from_env({"OBOL_RETENTION_H": "168", "OBOL_ID_RETENTION_D": "7"}).id_retention_d == 7
    with pytest.raises(SettingError) as caught:
        Settings.from_env({"OBOL_RETENTION_H": "169", "OBOL_ID_RETENTION_D": "7"})
    assert str(caught.value) == (
        "OBOL_ID_RETENTION_D is 7 days, which is shorter than OBOL_RETENTION_H (169 hours); set it to at least 8"
    )


def test_a_short_token_is_told_its_length_and_the_limits() -> None:
    with pytest.raises(SettingError) as caught:
        Settings.from_env({"OBOL_HTTP_TOKEN": "t"})
    assert str(caught.value) == (
        "OBOL_HTTP_TOKEN has 1 characters; use 16 to 1024 printable ASCII characters without spaces"
    )


def test_a_variable_counts_by_its_own_name_only() -> None:
    assert Settings.from_env({"partitions": "3", "security": "SSL", "OBOL_partitions": "4"}) == Settings()


def test_fausts_flags_win_and_are_judged_alike() -> None:
    settings = Settings.from_env({"OBOL_HTTP_PORT": "7000"})
    assert settings.with_web() == settings
    moved = settings.with_web(port=7001)
    assert (moved.http_host, moved.http_port) == ("127.0.0.1", 7001)
    assert moved.advertised_url == "http://127.0.0.1:7001"
    assert moved.data_dir == Path(".obol/worker-7001")
    with pytest.raises(SettingError, match="OBOL_HTTP_TOKEN"):
        settings.with_web(host="0.0.0.0")  # noqa: S104 - must be refused
    with pytest.raises(SettingError, match="OBOL_HTTP_PORT"):
        settings.with_web(port=0)


def test_what_was_given_outlives_fausts_flags() -> None:
    env = {"OBOL_ADVERTISED_URL": "http://obol-1:80", "OBOL_DATA_DIR": "/data"}
    moved = Settings.from_env(env).with_web(port=7001)
    assert (moved.advertised_url, moved.data_dir) == ("http://obol-1:80", Path("/data"))


def test_topics_have_the_namespace() -> None:
    assert Settings().topic("user.commands") == "user.commands"
    assert Settings(namespace="t").topic("user.commands") == "t.user.commands"


HUSH = {
    "OBOL_HTTP_TOKEN": "hush-0123456789abcdef",
    "REDIS_URL": "redis://:hush2@h",
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_USERNAME": "obol",
    "KAFKA_SASL_PASSWORD": "hush3",
    "KAFKA_SSL_PASSWORD": "hush4",
}


def test_secrets_are_not_shown() -> None:
    settings = Settings.from_env(HUSH)
    for shown in (repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert "hush" not in shown
    assert settings.kafka_client_options()["sasl_plain_password"] == "hush3"  # noqa: S105 - of a test


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OBOL_HTTP_TOKEN", "hush"),
        ("OBOL_HTTP_TOKEN", "hush 0123456789abcdef é"),
        ("REDIS_URL", "hush://x"),
        ("REDIS_URL", "redis://:pass/hush@h"),
        ("REDIS_URL", "redis://u:p@h:hush"),
        ("REDIS_URL", "redis://u:p@[hush"),
        ("KAFKA_SASL_PASSWORD", "hush"),
        ("KAFKA_SSL_PASSWORD", "hush"),
    ],
)
def test_a_message_does_not_show_a_wrong_secret(variable: str, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings.from_env({variable: text})
    assert "hush" not in str(caught.value)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_password_of_a_certificate_is_not_shown_when_it_does_not_open_the_key(tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    path.write_text("no certificate")
    env = {
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CERTFILE": str(path),
        "KAFKA_SSL_PASSWORD": "hush",
    }
    with pytest.raises(SettingError) as caught:
        Settings.from_env(env)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_plain_clients() -> None:
    assert Settings().kafka_client_options() == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "PLAINTEXT",
    }


def test_clients_with_a_password() -> None:
    env = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "KAFKA_SASL_USERNAME": "obol",
        "KAFKA_SASL_PASSWORD": "p",
    }
    assert Settings.from_env(env).kafka_client_options() == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "obol",
        "sasl_plain_password": "p",
    }


@pytest.mark.parametrize(("text", "checked"), [(None, True), ("1", True), ("false", False)])
def test_encrypted_clients(text: str | None, checked: bool) -> None:  # noqa: FBT001 - a table's column
    env = {"KAFKA_SECURITY_PROTOCOL": "SSL"} | ({} if text is None else {"KAFKA_SSL_CHECK_HOSTNAME": text})
    options = Settings.from_env(env).kafka_client_options()
    context = options["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname is checked
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert "sasl_mechanism" not in options


SASL = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p"}


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (SASL | {"KAFKA_SASL_USERNAME": ""}, "KAFKA_SASL_USERNAME is unset while KAFKA_SECURITY_PROTOCOL is SASL_SSL"),
        (SASL | {"KAFKA_SASL_PASSWORD": ""}, "KAFKA_SASL_PASSWORD is unset while KAFKA_SECURITY_PROTOCOL is SASL_SSL"),
        (
            SASL | {"KAFKA_SASL_MECHANISM": "GSSAPI"},
            "KAFKA_SASL_MECHANISM is 'GSSAPI'; set it to PLAIN, SCRAM-SHA-256 or",
        ),
        (SASL | {"KAFKA_SASL_USER": "u"}, "KAFKA_SASL_USER is unknown; unset it, or use KAFKA_SECURITY_PROTOCOL,"),
        ({"KAFKA_SASL_PASSWORD": "p"}, "KAFKA_SASL_PASSWORD is set while KAFKA_SECURITY_PROTOCOL is PLAINTEXT; set"),
        (
            {"KAFKA_SSL_CHECK_HOSTNAME": "0"},
            "KAFKA_SSL_CHECK_HOSTNAME is set while KAFKA_SECURITY_PROTOCOL is PLAINTEXT",
        ),
        (SASL | {"KAFKA_SSL_CAFILE": "/nowhere.pem"}, "KAFKA_SSL_CAFILE is '/nowhere.pem', where there is no file"),
        (SASL | {"KAFKA_SSL_CHECK_HOSTNAME": "maybe"}, "KAFKA_SSL_CHECK_HOSTNAME is 'maybe'; set it to 1, 0, true or"),
    ],
)
def test_wrong_security(env: dict[str, str], line: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings.from_env(env)
    assert str(caught.value).startswith(line)


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "broken.pem"
    path.write_text("no certificate")
    for variable in ("KAFKA_SSL_CAFILE", "KAFKA_SSL_CERTFILE"):
        with pytest.raises(SettingError, match=rf"^{variable} can't be used"):
            Settings.from_env({"KAFKA_SECURITY_PROTOCOL": "SSL", variable: str(path)})
    with pytest.raises(SettingError, match=r"^KAFKA_SSL_KEYFILE is set without KAFKA_SSL_CERTFILE"):
        Settings.from_env({"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_KEYFILE": str(path)})


def test_a_wrong_setting_ends_the_process_with_code_2_and_one_line() -> None:
    code = "import sys; sys.path.insert(0, '.'); from streams.settings import Settings; Settings.load_or_exit()"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"OBOL_PARTITIONS": "many"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "OBOL_PARTITIONS is 'many'; set it to a whole number from 1 to 1000\n"
