module agent

go 1.24
