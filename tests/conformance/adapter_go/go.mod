module conformance

go 1.24
