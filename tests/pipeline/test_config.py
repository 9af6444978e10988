"""Where a value comes from, what is refused and how, and that secrets stay secret."""

from pathlib import Path
from typing import Any

import pytest

from pipeline import config
from pipeline.config import Config, ConfigError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(
    flags: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    text: str | None = None,
) -> config.Effective:
    if text is not None:
        Path(config.FILE).write_text(text, "utf-8")
    return config.load(flags or {}, environ or {})


def test_flag_over_environment_over_file_over_default() -> None:
    text = 'prefix = "file."\nreplication = 3\nmax_messages = 7\n'
    environ = {"FOLDSTREAM_PREFIX": "environment.", "FOLDSTREAM_REPLICATION": "4", "OTHER": "x"}
    got = load({"prefix": "flag.", "strict": None}, environ, text)
    assert got.config == Config(prefix="flag.", replication=4, max_messages=7)
    assert got.origins == {
        "prefix": "flag",
        "replication": "environment",
        "max_messages": "foldstream.toml",
    }


def test_without_any_source_it_is_the_defaults() -> None:
    assert load().config == Config()


def test_the_environment_speaks_text_and_an_empty_variable_says_nothing() -> None:
    environ = {
        "FOLDSTREAM_STRICT": "true",
        "FOLDSTREAM_RATE": "2.5",
        "FOLDSTREAM_FROM_SEQ": "12",
        "FOLDSTREAM_PREFIX": "",
    }
    assert load({}, environ).config == Config(strict=True, rate=2.5, from_seq=12)


def test_client_options_are_merged_key_by_key_and_typed_by_their_name() -> None:
    got = load(
        {"client_options": dict([config.client_option("request_timeout_ms=5000")])},
        {
            "FOLDSTREAM_CLIENT_OPTION_SASL_PLAIN_PASSWORD": "12345",
            "FOLDSTREAM_CLIENT_OPTION_SSL_CHECK_HOSTNAME": "false",
        },
        '[client_options]\nsecurity_protocol = "SASL_SSL"\nrequest_timeout_ms = 1\n',
    )
    assert got.config.client_options == {
        "security_protocol": "SASL_SSL",
        "sasl_plain_password": "12345",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
    }


@pytest.mark.parametrize(
    ("flags", "environ", "text", "message"),
    [
        ({}, {}, "bootsrap = 'x'", r"foldstream.toml: bootsrap: unknown key; did you mean boots"),
        ({}, {"FOLDSTREAM_PREFX": "x"}, None, r"FOLDSTREAM_PREFX: unknown key; .* prefix\?"),
        ({}, {"FOLDSTREAM_ZZZZZZ": "x"}, None, r"FOLDSTREAM_ZZZZZZ: unknown key; `foldstream conf"),
        ({}, {}, "replication = '6'", r"foldstream.toml: replication: Expected `int`, got `str`"),
        ({}, {"FOLDSTREAM_REPLICATION": "six"}, None, r"FOLDSTREAM_REPLICATION: Expected `int`"),
        ({"max_messages": 0}, {}, None, r"--max-messages: Expected `int` >= 1"),
        ({}, {}, "log_level = 'loud'", r"log_level: Invalid enum value 'loud'"),
        ({}, {}, "= 1", r"foldstream.toml: not TOML"),
        ({}, {"FOLDSTREAM_CONFIG": "nowhere.toml"}, None, r"nowhere.toml: no such config"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(
    flags: dict[str, Any], environ: dict[str, str], text: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(flags, environ, text)


def test_a_client_option_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(ConfigError, match="write KEY=VALUE"):
        config.client_option("sasl_mechanism")


def test_a_named_file_takes_the_place_of_the_one_in_the_folder(elsewhere: Path) -> None:
    named = elsewhere / "other.toml"
    named.write_text("partitions = 9\n")
    (elsewhere / config.FILE).write_text("replication = 3\n")
    assert config.load({}, {}, named).config.partitions == 9
    assert config.load({}, {"FOLDSTREAM_CONFIG": str(named)}).config.partitions == 9


def test_secrets_are_masked_and_files_of_keys_are_not() -> None:
    options = {
        "sasl_plain_password": "p",
        "ssl_password": "q",
        "sasl_oauth_token_provider": "r",
        "ssl_keyfile": "/etc/key.pem",
        "sasl_plain_username": "me",
    }
    shown = config.masked(Config(client_options={**options}))["client_options"]
    assert shown == options | dict.fromkeys(list(options)[:3], "***")


def test_what_is_printed_can_be_read_again(elsewhere: Path) -> None:
    flags = {"prefix": 'a"\\\u2028é', "client_options": {"linger_ms": 5, "acks": "all"}}
    first = load(flags, {"FOLDSTREAM_STRICT": "1"})
    text = config.to_toml(first)
    assert "strict = true  # environment" in text
    assert "# rate is not set" in text
    again = load({}, {}, text)
    assert again.config == first.config


def test_a_broker_address_has_a_port() -> None:
    for wrong in ("broker", "broker:9o92", "broker:9092,other", "broker:70000"):
        with pytest.raises(ConfigError, match="HOST:PORT"):
            load({"bootstrap": wrong}, {})
    assert load({"bootstrap": "a:1,b:2"}, {}).config.bootstrap == "a:1,b:2"


@pytest.mark.parametrize(
    ("flags", "application"),
    [
        ({}, "foldstream"),
        ({"prefix": "test."}, "foldstream-test"),
        ({"prefix": "a.b"}, "foldstream-a.b"),
        ({"prefix": "test.", "application_id": "mine"}, "mine"),
    ],
)
def test_another_prefix_is_another_application(flags: dict[str, Any], application: str) -> None:
    effective = load(flags)
    assert effective.config.application == application
    assert config.masked(effective.config)["application_id"] == application
    (line,) = [x for x in config.to_toml(effective).splitlines() if "application_id" in x]
    assert f'application_id = "{application}"' in line
    assert line.startswith("#") is ("application_id" not in flags)
