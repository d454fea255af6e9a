{
  "targets": [{
    "target_name": "weir",
    "sources": ["weir.c"],
    "cflags": ["<!@(pkg-config --cflags weir)"],
    "libraries": ["<!@(pkg-config --libs weir)"]
  }]
}
