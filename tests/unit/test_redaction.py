"""No log record shows a secret, in whatever form a library writes it."""

from __future__ import annotations

import base64
import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.redaction import REDACTED, Redactor, keep_out_of_logs
from streams.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = 'p\u00e4ss"w/ord+1'  # noqa: S105 - of a test


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger, and what it has written; log records are made as before once the test is over."""
    make, hook = logging.getLogRecordFactory(), sys.excepthook
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("tests.redaction")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield logger, written
    finally:
        logger.removeHandler(handler)
        logging.setLogRecordFactory(make)
        sys.excepthook = hook


FORMS = {
    "as it is": SECRET,
    "repr": repr(SECRET),
    "ascii": ascii(SECRET),
    "bytes": repr(SECRET.encode()),
    "a login request": repr(b"obol\x00obol\x00" + SECRET.encode()),
    "json": json.dumps({"password": SECRET}),
    "a url": f"redis://:{quote(SECRET, safe='')}@h",
    "a form": f"password={quote_plus(SECRET)}",
    **{
        f"basic authentication of {user}": "Basic " + base64.b64encode(f"{user}:{SECRET}".encode()).decode()
        for user in ("a", "bc", "def", "")
    },
    "url-safe base64": base64.urlsafe_b64encode(SECRET.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_of_a_secret_is_replaced(form: str, log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = log
    logger.info("before %s after", form)
    assert form in written.getvalue()
    keep_out_of_logs([SECRET])
    written.truncate(0)
    logger.debug("before %s after", form)
    logger.warning("%s", {"key": form})
    logger.error("stack", stack_info=True)
    try:
        int(form)
    except ValueError:
        logger.exception("failed")
    text = written.getvalue()
    assert text.count(REDACTED) >= 3
    assert "before" in text
    assert "after" in text
    for part in ("p\u00e4ss", "w/ord", "w%2Ford", "p\\xe4ss", "p\\xc3\\xa4ss", form):
        assert part not in text


@given(st.binary(max_size=20), st.text("abcdefgh", min_size=9, max_size=40), st.binary(max_size=20))
def test_no_base64_of_a_text_with_the_secret_shows_more_than_its_ends(before: bytes, secret: str, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    left = Redactor([secret])(encoded)
    assert REDACTED in left
    assert len(left) - len(REDACTED) <= len(base64.b64encode(before + after)) + 8


def test_a_text_without_secrets_stays_as_it_is(log: tuple[logging.Logger, io.StringIO]) -> None:
    keep_out_of_logs([SECRET, "p", ""])
    logger, written = log
    logger.info("a plain line, %d people: paper", 2)
    assert written.getvalue() == "a plain line, 2 people: paper\n"


def test_a_short_secret_is_replaced_where_it_is_a_word() -> None:
    redact = Redactor(["p"])
    assert redact("password=p, paper 'p'") == f"password={REDACTED}, paper '{REDACTED}'"
    assert redact(repr(b"obol\x00obol\x00p")) == f"b'obol\\x00obol\\x00{REDACTED}'"


def test_arguments_that_do_not_fit_their_format_are_not_printed(
    log: tuple[logging.Logger, io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    """Logging would print them to stderr."""
    keep_out_of_logs([SECRET])
    logger, written = log
    logger.info("%d %d", SECRET)  # noqa: PLE1206 - the point
    assert REDACTED in written.getvalue()
    assert "ord+1" not in written.getvalue() + capsys.readouterr().err


def test_without_secrets_nothing_is_installed() -> None:
    make = logging.getLogRecordFactory()
    keep_out_of_logs(Settings().secrets)
    assert logging.getLogRecordFactory() is make


def test_every_secret_setting_is_kept_out() -> None:
    """A field of the type for secrets that `secrets` forgets would be shown."""
    env = {
        "OBOL_HTTP_TOKEN": "hush1-0123456789abcdef",
        "REDIS_URL": "redis://u:hush2%2F@h",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_USERNAME": "obol",
        "KAFKA_SASL_PASSWORD": "hush3",
        "KAFKA_SSL_PASSWORD": "hush4",
    }
    settings = Settings.from_env(env)
    assert set(settings.secrets) == {"hush1-0123456789abcdef", "hush2%2F", "hush2/", "hush3", "hush4"}
    fields = [*type(settings).model_fields.items(), *type(settings.security).model_fields.items()]
    assert {name for name, field in fields if "SecretStr" in repr(field.annotation)} == {
        "redis_url",
        "http_token",
        "sasl_password",
        "ssl_password",
    }


def test_the_last_traceback_of_a_process_has_no_secret() -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); from streams.settings import Settings\n"
        "settings = Settings.load_or_exit({'OBOL_HTTP_TOKEN': 'hush-0123456789abcdef'})\n"
        "raise RuntimeError(settings.http_token.get_secret_value())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"RuntimeError: {REDACTED}" in done.stderr
    assert "hush" not in done.stderr
