"""Settings are strict: what is not known or not an address is an error that names it."""

import pytest

from slackwater.errors import InputError
from slackwater.settings import RunSettings, check_bootstrap


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


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        RunSettings(bootstrap="a:1").group = "other"
