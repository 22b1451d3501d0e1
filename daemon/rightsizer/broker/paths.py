"""Paths of the broker's routes, which its commands ask for without loading what answers."""

from typing import Final

LEASES_PATH: Final = "/api/v1/leases"
BROKER_PATH: Final = "/api/v1/broker"
RESERVATIONS_PATH: Final = "/api/v1/reservations"
PLACE_PATH: Final = "/api/v1/place"
