case $1 in
info) [ ! -e "$FAKE_TOOLS/engine-is-down" ] ;;
exec)
  case " $* " in
  *" kubeadm version "*) echo the-version ;;
  *" cat "*)
    printf '%s\n' '    server: https://172.18.0.2:5443' '  name: kubernetes' '    cluster: kubernetes' \
      '    user: kubernetes-super-admin' '  name: kubernetes-super-admin@kubernetes' \
      'current-context: kubernetes-super-admin@kubernetes' '- name: kubernetes-super-admin'
    ;;
  esac
  ;;
run)
  for argument in "$@"; do
    case $argument in --volume=*:/kubeconfigs:ro) folder=${argument#--volume=}; folder=${folder%%:*} ;; esac
  done
  for argument in "$@"; do
    case $argument in
    --kubeconfig=/kubeconfigs/* | --cluster-kubeconfig=/kubeconfigs/*) cat "$folder/${argument##*/}" >>"$FAKE_TOOLS/given" ;;
    esac
  done
  ;;
esac
