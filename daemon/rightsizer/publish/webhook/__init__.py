"""Webhooks: changes of advice as JSON, and open advice as alerts of an Alertmanager."""
