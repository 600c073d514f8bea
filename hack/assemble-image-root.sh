#!/usr/bin/env bash
# Assembles the root file system of the image from a built binary. See --help.
set -euo pipefail
export LC_ALL=C

usage() {
  cat <<'USAGE'
Assembles the root file system of the image: the binary, the shared libraries that it needs, the links with the names of
Karmada's programs, certificate authorities, and an unprivileged user.

Usage: hack/assemble-image-root.sh BINARY FOLDER [TRIPLET]
       hack/assemble-image-root.sh --help

  BINARY    a built berth
  FOLDER    the root file system; must not exist
  TRIPLET   the platform of the binary, if it is not that of the machine: x86_64-linux-gnu or aarch64-linux-gnu. Its
            libraries are those of Debian's package libc6-amd64-cross or libc6-arm64-cross

It needs readelf (Debian: binutils).
USAGE
}

fail() {
  echo "error: $1" >&2
  exit 1
}

case "${1:-}" in
--help)
  usage
  exit 0
  ;;
esac
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  usage >&2
  exit 2
fi
binary=$1
root=$2
triplet=${3:-$(uname -m)-linux-gnu}
user=65532

[ -f "$binary" ] || fail "$binary is missing: build it with cargo build --profile dist --locked"
[ ! -e "$root" ] || fail "$root exists: name a new folder"
command -v readelf >/dev/null || fail "readelf is missing: install binutils"

# Prints the file of a shared library.
library() {
  local folder
  for folder in "/lib/$triplet" "/usr/lib/$triplet" "/usr/$triplet/lib" "/usr/$triplet/lib64"; do
    if [ -e "$folder/$1" ]; then
      echo "$folder/$1"
      return
    fi
  done
  fail "no library $1 for $triplet: install its package"
}

# Copies the libraries that a file needs, and those that they need.
copy_libraries() {
  local name file
  for name in $(readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case "$name" in
    ld-linux*) continue ;;
    esac
    [ ! -e "$root/lib/$triplet/$name" ] || continue
    file=$(library "$name")
    install -D --mode=0644 "$file" "$root/lib/$triplet/$name"
    copy_libraries "$file"
  done
}

install -D --mode=0755 "$binary" "$root/usr/local/bin/berth"

interpreter=$(readelf --program-headers --wide "$binary" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
if [ -n "$interpreter" ]; then
  file=$(library "$(basename "$interpreter")")
  install -D --mode=0755 "$file" "$root$interpreter"
  copy_libraries "$binary"
fi

# Deployments of Karmada name these programs. The scheduler of a cluster needs no shell and no other program.
install --directory "$root/bin"
for name in karmada-scheduler karmada-controller-manager karmada-webhook karmada-scheduler-estimator; do
  ln -s /usr/local/bin/berth "$root/bin/$name"
done
ln -s berth "$root/usr/local/bin/kubectl-berth"

if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  install -D --mode=0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
fi
install --directory "$root/etc"
cat >"$root/etc/passwd" <<END
root:x:0:0:root:/root:/sbin/nologin
nonroot:x:$user:$user:nonroot:/home/nonroot:/sbin/nologin
END
cat >"$root/etc/group" <<END
root:x:0:
nonroot:x:$user:
END
# Names of Services come from DNS, as the C library asks for it.
echo "hosts: files dns" >"$root/etc/nsswitch.conf"
install --directory --mode=1777 "$root/tmp"
install --directory --mode=0700 "$root/home/nonroot"
if [ "$(id -u)" = 0 ]; then
  chown "$user:$user" "$root/home/nonroot"
fi
for package in libc6 libgcc-s1; do
  if [ -f "/usr/share/doc/$package/copyright" ]; then
    install -D --mode=0644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
  fi
done
