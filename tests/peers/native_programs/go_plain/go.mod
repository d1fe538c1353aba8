module walked

go 1.21
