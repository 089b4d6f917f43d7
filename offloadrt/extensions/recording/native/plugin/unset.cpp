// Finds reads of a thread's own variable before anybody has written it: most often one that is `private` where it was meant to be
// firstprivate, or in a reduction.
//
// This looks at code before it is optimized, for an optimizer makes of such a read what it likes. A read is told where every write that
// can reach it comes behind it on all ways from the beginning of the function, as the one of `x += 1` does: when it first runs, nobody has
// written. The address may go to functions that are called nowhere else, as the bodies of parallel regions are. Where it goes
// anywhere else counts as a write. Copies of whole structures are not looked at, for they copy what is between the members as well.
#include "plugin.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <map>

using namespace llvm;

namespace offload {
namespace {

constexpr const char *Unset = "__offload_unset";

// The name of a variable in the source; empty for one of the compiler's.
std::string sourceName(AllocaInst &variable) {
  auto of = [](const DbgVariableRecord *record) {
    const DILocalVariable *local = record->getVariable();
    return local->isParameter() || local->getName().starts_with(".") ? "" : local->getName().str();
  };
  for (DbgVariableRecord *record : findDVRDeclares(&variable))
    if (std::string name = of(record); !name.empty())
      return name;
  for (DbgVariableRecord *record : at::getDVRAssignmentMarkers(&variable)) // with optimization
    if (std::string name = of(record); !name.empty())
      return name;
  return "";
}

// A region copies variables of the program into nameless room, and a task into its own, to hand them on by value: nobody may ever use such a
// copy, as of a loop's variable.
bool isHandedOn(const LoadInst &load) {
  return all_of(load.users(), [](const User *user) {
    auto *store = dyn_cast<StoreInst>(user);
    Value *room = store ? getUnderlyingObject(const_cast<Value *>(store->getPointerOperand())) : nullptr;
    if (auto *local = dyn_cast_if_present<AllocaInst>(room))
      return sourceName(*local).empty();
    auto *call = dyn_cast_if_present<CallBase>(room); // flang takes a task's room with malloc(), where no variable has it yet
    StringRef by = call && call->getCalledFunction() ? call->getCalledFunction()->getName() : "";
    return by.ends_with("task_alloc") || by == "malloc";
  });
}

// A part of a variable is set in place by reading all of it: a bit-field, or an element of a vector.
bool setsPart(const LoadInst &load) {
  return all_of(load.users(), [](const User *user) {
    auto *operation = dyn_cast<BinaryOperator>(user);
    return isa<InsertElementInst>(user) || isa<InsertValueInst>(user) ||
           (operation && operation->getOpcode() == Instruction::And && isa<ConstantInt>(operation->getOperand(1)));
  });
}

// At the end of a loop, the compiler gives the value of a lastprivate copy to the variable of the program, both at one place of the source.
bool isLastprivate(const LoadInst &load) {
  auto *store = load.hasOneUse() ? dyn_cast<StoreInst>(*load.user_begin()) : nullptr;
  const BasicBlock *before = load.getParent()->getSinglePredecessor();
  auto *branch = before ? dyn_cast<BranchInst>(before->getTerminator()) : nullptr;
  const DILocation *at = load.getDebugLoc(), *to = store ? store->getDebugLoc().get() : nullptr;
  return branch && branch->isConditional() && at && to && at->getLine() == to->getLine() && at->getColumn() == to->getColumn();
}

// The only function that an instruction gives the address to, and the parameter that has it there; nobody else calls the function.
Argument *received(CallBase &call, Value *address) {
  Function *called = call.getCalledFunction();
  size_t place = 0;
  bool isDirect = called && !called->isDeclaration(), isFork = called && called->isVarArg();
  if (!isDirect) {
    if (!called || !called->getName().starts_with("__kmpc_"))
      return nullptr;
    while (place < call.arg_size() && !isa<Function>(call.getArgOperand(place)))
      place++;
    if (place == call.arg_size())
      return nullptr;
    called = cast<Function>(call.getArgOperand(place));
  }
  if (called->isDeclaration() || !called->hasLocalLinkage() || !called->hasOneUse() || called->isVarArg())
    return nullptr;
  Argument *found = nullptr;
  for (size_t i = 0; i < call.arg_size(); i++) {
    if (call.getArgOperand(i) != address)
      continue;
    // A fork gives the body two thread numbers and then what follows it; other entries hand one structure on, at the end.
    size_t parameter = isDirect ? i : isFork ? i - place + 1 : called->arg_size() - 1;
    if (found || (!isDirect && i <= place) || parameter >= called->arg_size())
      return nullptr;
    found = called->getArg(parameter);
  }
  return found;
}

// A call that gets a structure with the address in one field, as flang's regions do: the addresses that its function loads from that field.
std::pair<CallBase *, SmallVector<Value *, 4>> receivedInField(StoreInst &store) {
  const DataLayout &layout = store.getModule()->getDataLayout();
  APInt offset(64, 0);
  auto *structure = dyn_cast<AllocaInst>(store.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, true));
  if (!structure)
    return {};
  Value *given = structure;
  for (User *user : structure->users()) // the only element of an array, for a parallel region
    if (auto *again = dyn_cast<StoreInst>(user); again && again->getValueOperand() == structure)
      given = getUnderlyingObject(again->getPointerOperand());
  std::pair<CallBase *, SmallVector<Value *, 4>> found;
  for (User *user : given->users()) {
    auto *call = dyn_cast<CallBase>(user);
    if (!call || isa<LifetimeIntrinsic>(call))
      continue;
    Argument *argument = received(*call, given);
    if (!argument || found.first)
      return {};
    found.first = call;
    for (User *field : argument->users()) {
      APInt other(64, 0);
      Value *base = isa<GetElementPtrInst>(field) ? field->stripAndAccumulateConstantOffsets(layout, other, true) : argument;
      if (isa<StoreInst>(field) || base != argument)
        return {};
      if (other == offset && isa<LoadInst>(field))
        found.second.push_back(field);
      else if (other == offset && isa<GetElementPtrInst>(field))
        for (User *load : field->users()) {
          if (!isa<LoadInst>(load))
            return {};
          found.second.push_back(load);
        }
    }
  }
  return found;
}

class Reads {
public:
  std::vector<LoadInst *> found; // before any write

  void look(SmallVector<Value *, 4> addresses, Function &function, unsigned depth = 0) {
    std::vector<LoadInst *> loads;
    std::vector<Instruction *> writes;
    std::vector<std::pair<CallBase *, SmallVector<Value *, 4>>> calls;
    SmallPtrSet<Value *, 8> seen;
    while (!addresses.empty()) {
      Value *address = addresses.pop_back_val();
      if (!seen.insert(address).second)
        continue;
      for (User *user : address->users()) {
        auto *instruction = dyn_cast<Instruction>(user);
        if (!instruction)
          return;
        if (auto *load = dyn_cast<LoadInst>(instruction)) {
          if (!load->use_empty() && !setsPart(*load) && !isLastprivate(*load) && !isHandedOn(*load))
            loads.push_back(load);
        } else if (isa<GetElementPtrInst>(instruction) || isa<AddrSpaceCastInst>(instruction))
          addresses.push_back(instruction);
        else if (auto *store = dyn_cast<StoreInst>(instruction); store && store->getValueOperand() == address && isReference(*store))
          for (User *again : store->getPointerOperand()->users()) { // the parameter's place on the stack, without optimization
            if (auto *load = dyn_cast<LoadInst>(again))
              addresses.push_back(load);
          }
        else if (auto *store = dyn_cast<StoreInst>(instruction); store && store->getValueOperand() == address) {
          auto inside = depth < 8 ? receivedInField(*store) : std::pair<CallBase *, SmallVector<Value *, 4>>();
          writes.push_back(inside.first ? static_cast<Instruction *>(inside.first) : store);
          if (inside.first)
            calls.push_back(inside);
        } else if (auto *call = dyn_cast<CallBase>(instruction); call && !isa<MemIntrinsic>(call)) {
          if (isa<LifetimeIntrinsic>(call))
            continue;
          if (Argument *argument = depth < 8 ? received(*call, address) : nullptr; argument)
            calls.push_back({call, {argument}});
          writes.push_back(call);
        } else if (auto *copy = dyn_cast<MemTransferInst>(instruction); copy && copy->getRawDest() != address)
          continue;
        else
          writes.push_back(instruction);
      }
    }
    if (loads.empty() && calls.empty())
      return;
    DominatorTree tree(function);
    auto isFirst = [&](Instruction *read) {
      return tree.isReachableFromEntry(read->getParent()) && all_of(writes, [&](Instruction *write) {
               return write == read || tree.dominates(read, write) || !isPotentiallyReachable(write, read, nullptr, &tree);
             });
    };
    erase_if(loads, [&](LoadInst *load) { return !isFirst(load); });
    copy_if(loads, std::back_inserter(found), [&](LoadInst *load) { // what reads the same again says nothing new
      return none_of(loads, [&](LoadInst *other) { return other != load && tree.dominates(other, load); });
    });
    for (auto &[call, inside] : calls)
      if (isFirst(call) && !inside.empty()) {
        auto *argument = dyn_cast<Argument>(inside[0]);
        look(inside, argument ? *argument->getParent() : *cast<Instruction>(inside[0])->getFunction(), depth + 1);
      }
  }

private:
  // Whether a store only puts a parameter into its own place on the stack, which nobody else writes.
  static bool isReference(const StoreInst &store) {
    auto *place = dyn_cast<AllocaInst>(store.getPointerOperand());
    return isa<Argument>(store.getValueOperand()) && place && all_of(place->users(), [&](const User *user) {
             auto *load = dyn_cast<LoadInst>(user);
             return user == &store || (load && !load->isVolatile()) || isa<LifetimeIntrinsic>(user);
           });
  }
};

// The body of a region: of the host's code only these are looked at, for compilers warn of other variables.
bool isRegion(const Function &function) {
  return function.getName().contains("omp_outlined") || function.getName().contains("omp_par") || function.getName().contains("omp_offloading");
}

} // namespace

void tellUnset(Module &module, bool isDevice) {
  LLVMContext &context = module.getContext();
  std::vector<std::pair<LoadInst *, std::string>> reads;
  for (Function &function : module) {
    if (function.isDeclaration() || !(isDevice || isRegion(function)))
      continue;
    for (Instruction &instruction : instructions(function))
      if (auto *variable = dyn_cast<AllocaInst>(&instruction))
        if (std::string name = sourceName(*variable); !name.empty()) {
          Reads of;
          of.look({variable}, function);
          for (LoadInst *load : of.found)
            if (load->getDebugLoc() && load->getDebugLoc()->getLine())
              reads.push_back({load, name});
        }
  }
  std::map<std::string, Constant *> texts;
  auto text = [&](StringRef string) {
    Constant *&letters = texts[string.str()];
    if (!letters) {
      Constant *data = ConstantDataArray::getString(context, string);
      letters = new GlobalVariable(module, data->getType(), true, GlobalValue::PrivateLinkage, data, "__offload_file");
    }
    return letters;
  };
  auto *pointer = PointerType::get(context, 0);
  auto *i32 = Type::getInt32Ty(context);
  auto *type = FunctionType::get(Type::getVoidTy(context), {pointer, pointer, i32}, false);
  GlobalVariable *recorder = nullptr; // null without one; weak, for it is found when the program starts
  for (auto &[load, name] : reads) {
    const DILocation *location = load->getDebugLoc();
    Value *words[] = {text(name), text(location->getFilename()), ConstantInt::get(i32, location->getLine())};
    IRBuilder<> builder(load);
    if (isDevice) {
      builder.CreateCall(module.getOrInsertFunction(Unset, type), words);
      continue;
    }
    if (!recorder) {
      recorder = new GlobalVariable(module, pointer, false, GlobalValue::WeakAnyLinkage, ConstantPointerNull::get(pointer), Unset);
      recorder->setVisibility(GlobalValue::HiddenVisibility);
    }
    Value *tell = builder.CreateLoad(pointer, recorder);
    builder.SetInsertPoint(SplitBlockAndInsertIfThen(builder.CreateIsNotNull(tell), load->getIterator(), false));
    builder.CreateCall(type, tell, words);
  }
}

} // namespace offload
