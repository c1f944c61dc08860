"""For Celery's own command line: `celery -A celery_worker worker -Q turns -P threads -c 200 --without-gossip`."""

from __future__ import annotations

from app import create_app
from app.infra.jobs import jobs

flask_app = create_app()
celery = jobs.celery
