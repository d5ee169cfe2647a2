"""Byte sources: standard input, a serial port, an MQTT broker. Each yields what has arrived, then waits."""

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

logger = logging.getLogger(__name__)

#: Most bytes read at once.
BLOCK_BYTES = 1 << 16
#: Seconds between two attempts to reconnect to a broker.
RETRY_S = 1.0


def from_file(file: Any) -> Iterator[bytes]:
    """Yield what arrives at an open binary file such as ``sys.stdin.buffer``, until its end."""
    while block := file.read1(BLOCK_BYTES):
        yield block


def from_serial(port: str, baud: int) -> Iterator[bytes]:
    """Yield what arrives at a serial port; raise OSError if the device is unplugged."""
    import serial

    try:
        opened = serial.Serial(port, baud, timeout=1.0)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise OSError(f"Cannot open the serial port {port} ({reason}); check its name and permissions.") from None
    with opened as device:
        logger.info("listening to %s at %d baud.", port, baud)
        while True:
            if block := device.read(device.in_waiting or 1):
                yield block


def from_mqtt(url: str) -> Iterator[bytes]:
    """Yield the messages of a topic, each as whole lines; reconnect if the connection is lost.

    The address is ``mqtt://user:password@host:1883/topic``, or ``mqtts://`` with TLS. Raises ValueError for a topic
    with wildcards, which would mix messages of several wearers.
    """
    from paho.mqtt.enums import MQTTErrorCode

    arrived: deque[bytes] = deque()
    client, host, port = _client(url, arrived)
    try:
        client.connect(host, port)
    except OSError as error:
        raise OSError(f"There is no MQTT broker at {host}:{port} ({error}); is it running?") from None
    try:
        while True:
            if client.loop(timeout=1.0) != MQTTErrorCode.MQTT_ERR_SUCCESS:
                logger.warning("connection to the broker at %s:%d lost; reconnecting.", host, port)
                _reconnect(client)
            while arrived:
                yield arrived.popleft().rstrip(b"\n") + b"\n"
    finally:
        client.disconnect()


def _client(url: str, arrived: deque[bytes]) -> tuple[Any, str, int]:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    parts = urlsplit(url)
    topic = unquote(url.partition("://")[2].partition("/")[2])  # "#" and "?" are part of the topic
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or not topic:
        raise ValueError(f"Expected mqtt://host:port/topic, got {url!r}.")
    if {"+", "#"} & set(topic):
        raise ValueError(
            f"Expected the topic of one wearer, got {topic!r}, whose wildcards would mix wearers; name one topic, and "
            f"run one stream for each wearer, or a service (sight serve)."
        )
    if "\0" in topic:  # brokers disconnect a client that subscribes to it
        raise ValueError(f"Expected a topic without NUL, got {topic!r}; check the address.")
    client = Client(CallbackAPIVersion.VERSION2)
    if parts.username:
        client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
    if parts.scheme == "mqtts":
        client.tls_set()

    def subscribe(client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            raise OSError(f"The MQTT broker at {parts.hostname} refused the connection: {reason}.")
        client.subscribe(topic, qos=1)

    client.on_connect = subscribe
    client.on_subscribe = lambda *_: logger.info("listening to %s at %s.", topic, parts.hostname)
    client.on_message = lambda _client, _data, message: arrived.append(bytes(message.payload))
    return client, parts.hostname, parts.port or (8883 if parts.scheme == "mqtts" else 1883)


def _reconnect(client: Any) -> None:
    while True:
        try:
            client.reconnect()
            return
        except OSError:
            time.sleep(RETRY_S)
