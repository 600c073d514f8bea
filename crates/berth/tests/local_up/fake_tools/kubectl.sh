saved=$FAKE_TOOLS/scheduler
case " $* " in
*" config view "*)
  for file in ${KUBECONFIG//:/ }; do [ ! -e "$file" ] || cat "$file"; done >"$FAKE_TOOLS/merged"
  cat "$FAKE_TOOLS/merged"
  ;;
*" get deployment karmada-scheduler "*"containers[0].image"*)
  [ -e "$saved" ] || { echo "not found" >&2; exit 1; }
  sed -n 's/^ *image: //p' "$saved"
  ;;
*" get deployment karmada-scheduler "*) cat "$saved" ;;
*" get deployments "*) printf '%s\n' karmada-scheduler berth-controllers my-karmada-scheduler ;;
*" set image "*)
  sed 's/ image: .*/ image: berth:latest/' "$saved" >"$saved.changed"
  cp "$saved.changed" "$saved"
  ;;
*" replace --filename="*)
  for argument in "$@"; do
    case $argument in --filename=*) cat "${argument#--filename=}" >"$saved" ;; esac
  done
  ;;
*" get pod "*) echo the-image ;;
*"apply --filename="*control-plane.yaml*)
  for argument in "$@"; do
    case $argument in --filename=*) cp "${argument#--filename=}" "$FAKE_TOOLS/control-plane.yaml" ;; esac
  done
  ;;
*" get --raw=/readyz "*) echo ok ;;
*" create secret generic "*)
  for argument in "$@"; do
    case $argument in --from-file=*) cat "${argument##*=}" >>"$FAKE_TOOLS/kubeconfigs" ;; esac
  done
  echo "kind: Secret"
  ;;
*"ca\.crt"*) echo the-certificate ;;
*".data.token"*)
  # Without the controller that fills Secrets in, the template gets no value, which base64decode refuses.
  if [ ! -e "$FAKE_TOOLS/no-token" ]; then
    printf '%s' the-token
  else
    case " $* " in *"{{with .data.token}}"*) ;; *) echo "error executing template" >&2; exit 1 ;; esac
  fi
  ;;
*"apply --filename="*controllers.yaml*)
  for argument in "$@"; do
    case $argument in --filename=*controllers.yaml) cp "${argument#--filename=}" "$FAKE_TOOLS/controllers.yaml" ;; esac
  done
  ;;
*" current-context "*) echo karmada-apiserver ;;
*" wait --for=condition=Ready "*) [ ! -e "$FAKE_TOOLS/members-are-not-ready" ] ;;
esac
