module tensorfile

go 1.19
