#!/usr/bin/env bash
# Builds the public programs of the stdpar paper and records them: bench/stdpar_recordings.sh SOURCES WORK [NAME ...]
#
# SOURCES has them checked out (bench/validation/stdpar_programs.md lists the commits), WORK is for what is built.
# NAME is a recording of offloadrt/papers/stdpar/recorded, as in cloverleaf-96; without one all of these are made anew.
# It needs clang 22 and CMake (README.md).
set -euo pipefail
sources=$(realpath "$1") work=$(mkdir -p "$2" && realpath "$2")
cd "$(dirname "$0")/../offloadrt/papers/stdpar/recorded"
shift 2
export CXX="offloadrt cxx -stdpar -ffile-prefix-map=$sources/="

built() { # SOURCE PROGRAM FLAG...: prints where the program lies, after building it by CMake where it does not yet
    local folder="$work/$1${*: -1}" source=$1 program=$2
    shift 2
    if [ ! -x "$folder/$program" ]; then
        cmake -S "$sources/$source" -B "$folder" -DCMAKE_BUILD_TYPE=Release "$@" > "$folder.log" 2>&1
        cmake --build "$folder" -j 2 >> "$folder.log" 2>&1
    fi
    echo "$folder/$program"
}

of_cells() { # FILE SIZE STEPS: prints an input with SIZE cells in a row, and with so many steps
    sed -E "s/^( *[xy]_cells *= *).*/\1$2/; s/^( *end_step *= *).*/\1$3/" "$sources/$1"
}

for name in "${@:-$(basename -s .rec ./*.rec)}"; do
    for recording in $name; do
        size=${recording##*-} input="$work/$recording.in" more=()
        case $recording in
            babelstream-data-*) run="$(built BabelStream std-stream -DMODEL=std -DSTDIMPL=DATA17) -s $size -n 11" ;;
            babelstream-*) run="$(built BabelStream std-stream -DMODEL=std -DSTDIMPL=INDICES) -s $size -n 11" ;;
            minibude-*)
                run="$(built miniBUDE std-indices-bude -DMODEL=std-indices) --deck $sources/miniBUDE/data/bm1 -n $size -p 4 -i 8"
                ;;
            cloverleaf-*)
                of_cells CloverLeaf/InputDecks/clover_bm4.in "$size" 6 > "$input"
                run="$(built CloverLeaf std-indices-cloverleaf -DMODEL=std-indices) --file $input"
                ;;
            tealeaf-*)
                of_cells TeaLeaf/Benchmarks/tea_bm_5.in "$size" 10 > "$input"
                run="$(built TeaLeaf std-indices-tealeaf -DMODEL=std-indices) --file $input" more=(--stop-after 500)
                ;;
            lulesh-*)
                if [ ! -x "$work/lulesh" ]; then
                    $CXX -w -O2 -std=c++17 -DUSE_MPI=0 "$sources"/LULESH/stdpar/src/*.cc -o "$work/lulesh"
                fi
                run="$work/lulesh -s $size -i 11"
                ;;
        esac
        (cd "$work" && offloadrt record -o "$OLDPWD/$recording.rec" "${more[@]}" $run)
    done
done
