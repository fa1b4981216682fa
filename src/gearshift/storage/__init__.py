"""Storage: URIs in each library's form, atomic writes, locks and leases, on local disks and object stores."""
