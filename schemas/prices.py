"""`croesus.prices`: the price of a profile from a time on."""

from dataclasses import dataclass

from pydantic import Field

from schemas.base import Wire
from schemas.ids import NonNegativeMoney, Text512


class Price(Wire):
    """The price of a profile from the record's timestamp on (B9); the record's key is the profile."""

    profile: Text512 = Field(
        description="`dedicated.<gpu_type>.<n>x`, `instance.<gpu_type>.<n>x`, or `disk`; equal to the record's key."
    )
    price: NonNegativeMoney = Field(description="Price per hour; for `disk` per GB and hour. 0 or more.")
    currency: Text512 = Field(
        description="ISO 4217 code; a record with another currency than `OBOL_CURRENCY` is ignored."
    )


@dataclass(frozen=True, slots=True)
class PriceRemoved:
    """A record with an empty value: from its timestamp on, the profile has no price."""

    profile: str
