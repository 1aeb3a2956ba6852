"""Settings are strict: what is not known or not an address is an error that names it."""

import msgspec
import pytest

from slackwater.errors import InputError
from slackwater.events import MAX_NAME, Name
from slackwater.settings import RunSettings, check_bootstrap, check_name


def test_given_values_win_over_the_environment_and_that_over_defaults():
    env = {"KAFKA_BOOTSTRAP_SERVERS": "env:1", "SLACKWATER_RUN_ID": "of-env"}
    settings = RunSettings.from_env(env, bootstrap="given:2", group=None)
    assert settings == RunSettings(bootstrap="given:2", run_id="of-env")


def test_every_setting_has_an_environment_variable():
    env = {
        "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
        "SLACKWATER_TOPIC_PREFIX": "p",
        "SLACKWATER_RUN_ID": "r",
        "SLACKWATER_GROUP": "g",
    }
    expected = RunSettings(bootstrap="kafka:9092", prefix="p", run_id="r", group="g")
    assert RunSettings.from_env(env) == expected


@pytest.mark.parametrize("env", [{}, {"KAFKA_BOOTSTRAP_SERVERS": ""}])
def test_missing_broker_says_how_to_name_one(env):
    with pytest.raises(InputError, match="KAFKA_BOOTSTRAP_SERVERS"):
        RunSettings.from_env(env)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        ":9092",
        "host:",
        "host:port",
        "host:0",
        "host:65536",
        "host:-1",
        "a:1,,b:2",
        "a:1,b",
    ],
)
def test_bad_broker_address_is_refused_by_its_value(text):
    with pytest.raises(InputError, match="must be HOST:PORT"):
        check_bootstrap(text)


@pytest.mark.parametrize("text", ["localhost:9092", "10.0.0.1:1", "a:1,b:65535", "[::1]:9092"])
def test_good_broker_addresses_pass_unchanged(text):
    assert check_bootstrap(text) == text


@pytest.mark.parametrize("text", ["", "x", "x" * MAX_NAME, "x" * (MAX_NAME + 1), "é" * MAX_NAME])
def test_a_name_is_taken_when_an_event_can_carry_it(text):
    try:
        msgspec.json.decode(msgspec.json.encode(text), type=Name)
    except msgspec.ValidationError:
        with pytest.raises(InputError, match=r"--it has \d+ characters; .* has 1 to 200"):
            check_name(text, "--it")
    else:
        assert check_name(text, "--it") == text


@pytest.mark.parametrize(
    ("setting", "variable"),
    [
        ("run_id", "SLACKWATER_RUN_ID"),
        ("group", "SLACKWATER_GROUP"),
        ("prefix", "SLACKWATER_TOPIC_PREFIX"),
    ],
)
def test_a_setting_that_no_event_can_carry_is_refused_by_its_name(setting, variable):
    with pytest.raises(InputError, match=f"{setting} has 201 characters"):
        RunSettings.from_env({}, bootstrap="a:1", **{setting: "x" * 201})
    # As the environment gives bytes that are no UTF-8.
    with pytest.raises(InputError, match=rf"{variable} is 'x.udcff', which is no UTF-8"):
        RunSettings.from_env({variable: "x\udcff"}, bootstrap="a:1")


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        RunSettings(bootstrap="a:1").group = "other"
