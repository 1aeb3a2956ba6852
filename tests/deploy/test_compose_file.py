"""docker-compose.yml is whole: every name it uses is one it defines, and nothing floats."""

import re
import shutil
import subprocess

import pytest
import yaml
from compose_file import ROOT, ours, services

COMPOSE = ROOT / "docker-compose.yml"
DOCUMENT = yaml.safe_load(COMPOSE.read_text())
ALL = services()


def has_docker_compose():
    docker = shutil.which("docker")
    if docker is None:
        return False
    probe = subprocess.run([docker, "compose", "version"], check=False, capture_output=True)
    return probe.returncode == 0


@pytest.mark.skipif(not has_docker_compose(), reason="no docker compose on this machine")
def test_docker_compose_accepts_the_file():
    command = ["docker", "compose", "--profile", "*", "-f", COMPOSE, "config", "--quiet"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ALL)
def test_dependencies_are_services_and_their_conditions_can_be_met(name):
    wanted = ALL[name].get("depends_on", {})
    for other in wanted:
        assert other in ALL
        condition = wanted[other]["condition"] if isinstance(wanted, dict) else "service_started"
        if condition == "service_healthy":
            assert "healthcheck" in ALL[other]
        if condition == "service_completed_successfully":
            assert "restart" not in ALL[other]
        assert not ALL[other].get("profiles") or ALL[name].get("profiles")


@pytest.mark.parametrize("name", ALL)
def test_volumes_are_named_ones_that_are_declared_or_files_that_are_there(name):
    for volume in ALL[name].get("volumes", []):
        source = volume.split(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in DOCUMENT["volumes"]


def test_every_declared_volume_is_used():
    used = {v.split(":")[0] for service in ALL.values() for v in service.get("volumes", [])}
    assert set(DOCUMENT["volumes"]) == {name for name in used if not name.startswith(".")}


@pytest.mark.parametrize("name", ALL)
def test_images_have_a_version(name):
    assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", ALL[name]["image"])


@pytest.mark.parametrize("name", ALL)
def test_ports_are_published_on_loopback_alone(name):
    for port in ALL[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ours())
def test_our_containers_cannot_write_beyond_their_volume_or_gain_rights(name):
    service = ALL[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["init"] is True


@pytest.mark.parametrize("name", ours())
def test_our_services_share_broker_run_and_group(name):
    env = ALL[name]["environment"]
    assert env["KAFKA_BOOTSTRAP_SERVERS"] == "kafka:9092"
    assert env["SLACKWATER_RUN_ID"] == "compose"
    assert env["SLACKWATER_GROUP"] == "default"
    assert ours({"SLACKWATER_RUN_ID": "mine"})[name]["environment"]["SLACKWATER_RUN_ID"] == "mine"


def test_images_of_ours_carry_the_version_of_the_package():
    from slackwater import __version__

    assert {s["image"].partition(":")[2] for s in ours().values()} == {__version__}


def test_learners_agree_on_where_and_how_many_they_are():
    learners = [service for name, service in ALL.items() if name.startswith("learner-")]
    assert [s["environment"]["RANK"] for s in learners] == ["0", "1"]
    assert {s["environment"]["WORLD_SIZE"] for s in learners} == {str(len(learners))}
    assert {s["environment"]["MASTER_ADDR"] for s in learners} == {"learner-0"}
    assert {s["environment"]["MASTER_PORT"] for s in learners} == {"29500"}
    participants = {s["command"][s["command"].index("--participants") + 1] for s in learners}
    assert participants == {"learner-0,learner-1"}


def test_partitions_are_as_many_where_topics_are_made_as_where_they_are_counted():
    found = {
        s["command"][s["command"].index("--partitions") + 1]
        for s in ours().values()
        if "--partitions" in s["command"]
    }
    assert found == {"4"}


def test_kafka_is_pinned_checked_for_health_and_keeps_its_log_on_a_volume():
    kafka = ALL["kafka"]
    assert kafka["image"].startswith("apache/kafka:")
    assert "healthcheck" in kafka
    (volume,) = kafka["volumes"]
    assert volume == f"kafka-data:{kafka['environment']['KAFKA_LOG_DIRS']}"
    assert kafka["environment"]["KAFKA_PROCESS_ROLES"] == "broker,controller"
    assert "INSIDE://kafka:9092" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    listeners = kafka["environment"]["KAFKA_LISTENERS"].split(",")
    mapped = kafka["environment"]["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    assert [x.partition("://")[0] for x in listeners] == [x.partition(":")[0] for x in mapped]


def test_only_what_a_first_run_needs_starts_without_a_profile():
    started = {name for name, service in ALL.items() if not service.get("profiles")}
    assert started == {"kafka", "topics", "stream", "replay", "learner-0", "learner-1"}
