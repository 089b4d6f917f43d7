// What host code hands to functions that are not the plugin's: they may read it and store into it, and nobody sees them do so. Of
// flang's runtime and of the libraries of C and C++ (library.cpp) it is known what they do with arrays.
#include "plugin.h"
#include "../slots.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <optional>

using namespace llvm;

namespace offload {

// free, or an operator delete: the block that it is given is none of the program's any more.
bool frees(const Function &callee) {
  StringRef name = callee.getName();
  return name == "free" || name.starts_with("_Zdl") || name.starts_with("_Zda");
}

namespace {

// What a routine of flang's runtime does with arrays by their descriptors: which arguments it reads, and which it writes (-1: none)
// or only allocates.
struct DescribedArrays {
  int first, last, written;
  bool allocates = false;
};

std::optional<DescribedArrays> describedBy(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  StringRef name = callee ? callee->getName() : "";
  if (!name.consume_front("_FortranA"))
    return std::nullopt;
  if (name.contains("Assign") || name.contains("AllocateSource"))
    return DescribedArrays{1, 1, 0};
  if (name.starts_with("AllocatableAllocate") || name.starts_with("PointerAllocate")) // components may have initial values
    return DescribedArrays{0, -1, 0, true};
  if (name.starts_with("Allocatable") || name.starts_with("Pointer") || name.starts_with("MoveAlloc"))
    return DescribedArrays{0, -1, -1};
  if (name.starts_with("ioInputDescriptor"))
    return DescribedArrays{0, -1, 1};
  if (name.starts_with("ioOutputDescriptor"))
    return DescribedArrays{1, 1, -1};
  if (name == "RandomNumber")
    return DescribedArrays{0, -1, 0};
  if (name.starts_with("MatmulDirect"))
    return DescribedArrays{1, 2, 0};
  if (name.starts_with("Matmul"))
    return DescribedArrays{1, 2, -1};
  if (name.starts_with("DotProduct"))
    return DescribedArrays{0, 1, -1};
  for (StringRef behind : {"Maxloc", "Minloc", "Findloc", "Transpose", "Cshift", "Eoshift", "Pack", "Spread", "Reshape"})
    if (name.starts_with(behind))
      return DescribedArrays{1, 1, -1};
  for (StringRef reduction : {"Sum", "Product", "Maxval", "Minval", "Any", "All", "Count", "Norm2", "IAll", "IAny", "IParity"})
    if (name.starts_with(reduction) && !name.starts_with("Allocat") && !name.starts_with("AllocatedP"))
      return name.contains("Dim") || name.contains("Char") ? DescribedArrays{1, 1, -1} : DescribedArrays{0, 0, -1};
  return std::nullopt;
}

void reportDescribed(CallBase &call) {
  eachDescribed(call, [&](Instruction *before, Value *descriptor, unsigned way) {
    IRBuilder<> builder(before);
    auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt32Ty()}, false);
    builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), call.getModule()->getNamedGlobal(Described)),
                       {builder.CreatePtrToInt(descriptor, builder.getInt64Ty()), builder.getInt32(way)});
  });
}

// Whether a pointer is to what nobody can store into, as the text of a format.
bool isConstantData(const Value *argument) {
  auto *variable = dyn_cast<GlobalVariable>(argument->stripPointerCasts());
  return variable && variable->isConstant();
}

// Whether the buffers of a call are told by what interposes MPI (mpi/messages.h), in C as in Fortran.
bool isMessage(const Function &function) {
  std::string lower = function.getName().lower();
  StringRef name = StringRef(lower).rtrim('_');
  if (!name.consume_front("mpi_"))
    return false;
  name.consume_back("_c"); // counts are MPI_Count
  name.consume_back("_init");
  static const StringSet<> calls{
      "send", "bsend", "ssend", "rsend", "recv", "mrecv", "isend", "ibsend", "issend", "irsend", "irecv", "imrecv", "sendrecv",
      "sendrecv_replace", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
      "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan",
      "neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"};
  if (calls.contains(name))
    return true;
  return name.consume_front("i") && calls.contains(name);
}

// Whether assembly or an instruction of one processor stores by an address, which no access says.
bool storesUnseen(const CallBase &call) {
  if (call.isInlineAsm())
    return call.mayWriteToMemory();
  auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
  return intrinsic && !isa<MemIntrinsic>(intrinsic) && !intrinsic->isAssumeLikeIntrinsic() &&
         intrinsic->getIntrinsicID() != Intrinsic::prefetch && intrinsic->mayWriteToMemory();
}

// Arguments by which a function may store into memory of the program, though this module does not see it do so.
SmallVector<Value *, 4> givenBy(const CallBase &call) {
  SmallVector<Value *, 4> given;
  const Function *callee = call.getCalledFunction();
  if (isOfLibrary(call))
    return unknownOfLibrary(call);
  if (((isa<IntrinsicInst>(call) || call.isInlineAsm()) && !storesUnseen(call)) || call.onlyReadsMemory() || describedBy(call))
    return given;
  if (callee && (!callee->isDeclaration() || callee->getName().starts_with("__kmpc_") || callee->getName().starts_with("__tgt_") ||
                 callee->getName().starts_with("omp_") || frees(*callee) || isMessage(*callee)))
    return given;
  for (unsigned number = 0; number < call.arg_size(); number++) {
    Value *argument = call.getArgOperand(number);
    if (argument->getType()->isPointerTy() && !isa<ConstantPointerNull>(argument) && !isUnreachable(argument) &&
        !isConstantData(argument) && !call.onlyReadsMemory(number))
      given.push_back(argument);
  }
  return given;
}

// Each function that is instrumented has a variable of this name, which others find when they are linked with it.
std::string markOf(const Function &function) { return ("__offload_watched." + function.getName()).str(); }

// Whether code that nobody watches may read memory of the program by what it is given here.
bool mayShow(const CallBase &call) {
  const Function *callee = call.getCalledFunction();
  if (isa<IntrinsicInst>(call) || call.isInlineAsm() || call.doesNotAccessMemory() || describedBy(call) || isOfLibrary(call))
    return false;
  return !callee || (callee->isDeclaration() && !callee->getName().starts_with("__kmpc_") && !callee->getName().starts_with("__tgt_") &&
                     !callee->getName().starts_with("omp_") && !frees(*callee) && !isMessage(*callee));
}

// A variable that may hold addresses: its bytes, of those that are looked at.
uint64_t containerBytes(const Value &argument, const DataLayout &layout) {
  constexpr uint64_t Most = 4096;
  const Value *object = getUnderlyingObject(&argument);
  if (auto *local = dyn_cast<AllocaInst>(object))
    if (std::optional<TypeSize> size = local->getAllocationSize(layout))
      return std::min<uint64_t>(size->getKnownMinValue(), Most);
  if (auto *global = dyn_cast<GlobalVariable>(object); global && !global->isConstant() && !global->isDeclaration())
    return std::min<uint64_t>(layout.getTypeAllocSize(global->getValueType()), Most);
  return 0;
}

SmallVector<Value *, 4> shownBy(const CallBase &call) {
  SmallVector<Value *, 4> shown;
  if (mayShow(call))
    for (unsigned number = 0; number < call.arg_size(); number++) {
      Value *argument = call.getArgOperand(number);
      if (argument->getType()->isPointerTy() && !isa<ConstantPointerNull>(argument) && !isConstantData(argument))
        shown.push_back(argument);
    }
  return shown;
}

// Whether the function that is called turns out not to be instrumented itself: when the program is linked, or, where its address is called, when it runs.
Value *isUnwatched(CallBase &call) {
  Module &module = *call.getModule();
  const Function *callee = call.getCalledFunction();
  if (!callee) {
    IRBuilder<> builder(&call);
    if (call.isInlineAsm())
      return builder.getTrue();
    auto *type = FunctionType::get(builder.getInt1Ty(), {builder.getInt64Ty()}, false);
    return builder.CreateNot(builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Watches)),
                                                {builder.CreatePtrToInt(call.getCalledOperand(), builder.getInt64Ty())}));
  }
  GlobalVariable *mark = module.getNamedGlobal(markOf(*callee));
  if (!mark)
    mark = new GlobalVariable(module, Type::getInt8Ty(module.getContext()), true, GlobalValue::ExternalWeakLinkage, nullptr, markOf(*callee));
  return IRBuilder<>(&call).CreateIsNull(mark);
}

// Tells what a function of a library reads and writes.
void reportLibrary(CallBase &call) {
  eachOfLibrary(call, isUnwatched(call), [&](IRBuilder<> &builder, Value *address, Value *bytes, unsigned way) {
    auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getInt32Ty()}, false);
    builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), call.getModule()->getNamedGlobal(Range)),
                       {builder.CreatePtrToInt(address, builder.getInt64Ty()), bytes, builder.getInt32(way)});
  });
}

// Tells what a call may read and write, unless the function that is called turns out to be instrumented itself.
void reportUnwatched(CallBase &call) {
  SmallVector<Value *, 4> shown = shownBy(call), given = givenBy(call);
  if (shown.empty() && given.empty())
    return;
  Module &module = *call.getModule();
  Instruction *here = SplitBlockAndInsertIfThen(isUnwatched(call), call.getIterator(), false);
  IRBuilder<> builder(here);
  auto *one = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty()}, false);
  for (Value *argument : given)
    builder.CreateCall(one, builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Given)),
                       {builder.CreatePtrToInt(argument, builder.getInt64Ty())});
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getInt64Ty()}, false);
  for (Value *argument : shown) {
    const Value *object = getUnderlyingObject(argument);
    Value *container = isa<AllocaInst>(object) || isa<GlobalVariable>(object) ? const_cast<Value *>(object) : argument;
    builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), module.getNamedGlobal(Shown)),
                       {builder.CreatePtrToInt(argument, builder.getInt64Ty()), builder.CreatePtrToInt(container, builder.getInt64Ty()),
                        builder.getInt64(containerBytes(*argument, module.getDataLayout()))});
  }
}

} // namespace

std::pair<Constant *, uint64_t> calledByAddress(Module &module) {
  std::vector<Constant *> all;
  for (Function &function : module)
    if (mayClone(function) && (function.hasAddressTaken() || !function.isDiscardableIfUnused())) // or found by dlsym
      all.push_back(&function);
  auto *type = ArrayType::get(PointerType::get(module.getContext(), 0), all.size());
  return {new GlobalVariable(module, type, true, GlobalValue::InternalLinkage, ConstantArray::get(type, all), "__offload_functions"), all.size()};
}

void markFunctions(Module &module) {
  Type *byte = Type::getInt8Ty(module.getContext());
  SmallVector<Function *, 16> functions;
  for (Function &function : module)
    if (mayClone(function) && !function.hasLocalLinkage() && !function.hasAvailableExternallyLinkage() && !function.getName().starts_with("__omp_offloading"))
      functions.push_back(&function);
  for (Function *function : functions)
    new GlobalVariable(module, byte, true, GlobalValue::WeakAnyLinkage, ConstantInt::get(byte, 1), markOf(*function));
}

bool readsOrWritesDescribed(const CallBase &call) { return describedBy(call).has_value(); }

void eachDescribed(CallBase &call, function_ref<void(Instruction *, Value *, unsigned)> report) {
  std::optional<DescribedArrays> arrays = describedBy(call);
  if (!arrays)
    return;
  auto tell = [&](Instruction *before, int argument, unsigned way) {
    if (argument >= 0 && unsigned(argument) < call.arg_size() && call.getArgOperand(argument)->getType()->isPointerTy())
      report(before, call.getArgOperand(argument), way);
  };
  for (int argument = arrays->first; argument <= arrays->last; argument++)
    tell(&call, argument, LOADS);
  if (!call.isTerminator())
    tell(call.getNextNode(), arrays->written, STORES | (arrays->allocates ? MAYBE : 0));
}

bool givesAnything(const CallBase &call) { return describedBy(call) || isOfLibrary(call) || !shownBy(call).empty() || !givenBy(call).empty(); }

void reportGiven(CallBase &call) {
  reportDescribed(call);
  if (isOfLibrary(call))
    reportLibrary(call);
  reportUnwatched(call);
}

} // namespace offload
