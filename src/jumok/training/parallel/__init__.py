"""How several processes train one model: data parallelism and fully sharded data parallelism."""
