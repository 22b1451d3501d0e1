"""dcgm-exporter's names as a table: metric, type, unit, the signal that it carries.

Read by whatever understands a dcgm-exporter and by whatever imitates one.
"""

from typing import Final

from rightsizer.model.dcgm_field import DcgmField
from rightsizer.model.dcgm_health_fields import HEALTH_FIELDS
from rightsizer.model.dcgm_load_fields import LOAD_FIELDS
from rightsizer.model.dcgm_state_fields import STATE_FIELDS
from rightsizer.model.dcgm_unread_fields import UNREAD_FIELDS

DCGM_FIELDS: Final[dict[str, DcgmField]] = {
    field.name: field for field in (*STATE_FIELDS, *LOAD_FIELDS, *HEALTH_FIELDS, *UNREAD_FIELDS)
}
"""By name; dcgm-exporter's own list, what is commented out in it, and more that says something."""
