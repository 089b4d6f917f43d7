// What the instructions of a basic block count as.
#include "plugin.h"
#include "../slots.h"
#include "llvm/Analysis/CaptureTracking.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace offload {

// Whether it is the compiler's own pointer to a thread's number: the first two arguments of the body of a region.
static bool isThreadNumber(const Value *pointer) {
  auto *argument = dyn_cast<Argument>(pointer);
  return argument && argument->getArgNo() < 2 && any_of(argument->getParent()->users(), [](const User *user) {
           auto *call = dyn_cast<CallBase>(user);
           return call && call->getCalledFunction() && call->getCalledFunction()->getName().starts_with("__kmpc_fork_");
         });
}

// Thread numbers lie on the stack of whoever begins the region; on a GPU they are in registers.
bool isStack(const Value *pointer) {
  const Value *object = getUnderlyingObject(pointer);
  return isa<AllocaInst>(object) || isThreadNumber(object);
}

// What the compiler itself lays on the stack for a call of the runtime: lists of what is mapped, the bounds of loops.
static bool isForRuntime(const AllocaInst &variable) {
  return any_of(variable.users(), [](const User *user) {
    auto *call = dyn_cast<CallBase>(user);
    if (!call || !call->getCalledFunction())
      return false;
    StringRef name = call->getCalledFunction()->getName();
    return name.starts_with("__tgt_") || name.starts_with("__kmpc_for_") || name.starts_with("__kmpc_dist") ||
           name.starts_with("__kmpc_dispatch");
  });
}

bool isUnreachable(const Value *pointer) {
  auto *variable = dyn_cast<AllocaInst>(getUnderlyingObject(pointer));
  if (!variable)
    return isStack(pointer);
  return isForRuntime(*variable) || !PointerMayBeCaptured(variable, /*ReturnCaptures=*/false);
}

static int64_t lanes(const Type *type) {
  auto *vector = dyn_cast<FixedVectorType>(type);
  return vector ? vector->getNumElements() : 1;
}

// The column of a floating-point operation: those of double, float and half stand side by side.
static unsigned column(const Type *type, unsigned first) {
  const Type *scalar = type->getScalarType();
  return first + (scalar->getPrimitiveSizeInBits() >= 64 ? 0 : scalar->isFloatTy() ? 1 : 2);
}

static void addFlops(Row &row, const Type *type, int64_t each) { row[column(type, COUNT_F64)] += each * lanes(type); }
static void addDivisions(Row &row, const Type *type) { row[column(type, COUNT_DIV64)] += lanes(type); }
static void addSpecial(Row &row, const Type *type) {
  row[type->getScalarType()->isDoubleTy() ? COUNT_SPECIAL64 : COUNT_SPECIAL32] += lanes(type);
}

static void countIntrinsic(Row &row, const IntrinsicInst &call) {
  const Type *type = call.getType();
  switch (call.getIntrinsicID()) {
  case Intrinsic::fma:
  case Intrinsic::fmuladd:
    return addFlops(row, type, 2);
  case Intrinsic::vector_reduce_fadd:
  case Intrinsic::vector_reduce_fmul:
    return addFlops(row, call.getArgOperand(1)->getType(), 1);
  case Intrinsic::sqrt:
    return addDivisions(row, type);
  case Intrinsic::sin:
  case Intrinsic::cos:
  case Intrinsic::tan:
  case Intrinsic::exp:
  case Intrinsic::exp2:
  case Intrinsic::exp10:
  case Intrinsic::log:
  case Intrinsic::log2:
  case Intrinsic::log10:
  case Intrinsic::pow:
  case Intrinsic::powi:
  case Intrinsic::atan2:
  case Intrinsic::sinh:
  case Intrinsic::cosh:
  case Intrinsic::tanh:
    return addSpecial(row, type);
  default:
    break;
  }
}

static void countCall(Row &row, const CallBase &call) {
  if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call))
    return countIntrinsic(row, *intrinsic);
  const Function *callee = call.getCalledFunction();
  if (!callee || !callee->isDeclaration())
    return; // its own blocks are counted
  StringRef name = callee->getName();
  if (name.starts_with("__kmpc_") || name.starts_with("omp_") || name.starts_with("__offload_"))
    return; // the device runtime
  if (!call.getType()->isFloatingPointTy())
    row[COUNT_UNKNOWN_CALLS]++;
  else if (name == "sqrt" || name == "sqrtf")
    addDivisions(row, call.getType());
  else
    addSpecial(row, call.getType());
}

template <class Instruction> static unsigned syncs(const Instruction &access) {
  return access.isVolatile() || access.isAtomic() ? SYNC : 0;
}

bool accessOf(Instruction &instruction, const DataLayout &layout, Access &access) {
  Type *type;
  if (auto *load = dyn_cast<LoadInst>(&instruction))
    access = {&instruction, load->getPointerOperand(), 0, LOADS | syncs(*load)}, type = load->getType();
  else if (auto *store = dyn_cast<StoreInst>(&instruction))
    access = {&instruction, store->getPointerOperand(), 0, STORES | syncs(*store)}, type = store->getValueOperand()->getType();
  else if (auto *update = dyn_cast<AtomicRMWInst>(&instruction))
    access = {&instruction, update->getPointerOperand(), 0, LOADS | STORES | ATOMIC | SYNC}, type = update->getType();
  else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
    access = {&instruction, exchange->getPointerOperand(), 0, LOADS | STORES | ATOMIC | SYNC};
    type = exchange->getCompareOperand()->getType();
  } else
    return false;
  access.bytes = layout.getTypeStoreSize(type);
  return true;
}

static void countAccess(Row &row, const Access &access) {
  if (isStack(access.pointer)) {
    row[COUNT_STACK]++;
    return;
  }
  if (access.way & ATOMIC)
    row[COUNT_ATOMICS]++, row[COUNT_ATOMIC_BYTES] += access.bytes;
  if (access.way & LOADS)
    row[COUNT_LOADS]++, row[COUNT_LOAD_BYTES] += access.bytes;
  if (access.way & STORES)
    row[COUNT_STORES]++, row[COUNT_STORE_BYTES] += access.bytes;
}

Row countBlock(const BasicBlock &block, const DataLayout &layout) {
  Row row{};
  for (const Instruction &instruction : block) {
    const Type *type = instruction.getType();
    Access access;
    if (accessOf(const_cast<Instruction &>(instruction), layout, access)) {
      countAccess(row, access);
      continue;
    }
    switch (instruction.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
      addFlops(row, type, 1);
      break;
    case Instruction::FDiv:
    case Instruction::FRem:
      addDivisions(row, type);
      break;
    case Instruction::ICmp:
    case Instruction::Select:
    case Instruction::GetElementPtr:
      row[COUNT_INTEGER] += lanes(type);
      break;
    case Instruction::Br:
      row[COUNT_BRANCHES] += cast<BranchInst>(instruction).isConditional();
      break;
    case Instruction::Switch:
      row[COUNT_BRANCHES]++;
      break;
    case Instruction::Call:
    case Instruction::Invoke:
      countCall(row, cast<CallBase>(instruction));
      break;
    default: // the other binary operators are those of integers
      if (isa<BinaryOperator>(instruction))
        row[COUNT_INTEGER] += lanes(type);
    }
  }
  return row;
}

} // namespace offload
