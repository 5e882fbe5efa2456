# The part of the Makefile for packages.

DEB_PACKAGES := $(BUILD_PACKAGES) debhelper dpkg-dev git pkgconf

.PHONY: deb sbom

deb: ## Debian packages of rlockd and rlock, for the Debian at hand, in build/deb
	@tests/packages.sh $(DEB_PACKAGES)
	@deploy/deb.sh

sbom: all ## what both programs are linked with, and its versions: build/sbom.cdx.json (CycloneDX)
	@tests/packages.sh python3
	@python3 deploy/sbom.py $(VERSION) $(BUILD)/rlockd $(BUILD)/rlock > build/sbom.cdx.json
	@echo build/sbom.cdx.json
