// A class with arrays of its own: its members are mapped as parts of it, its pointers are attached, and a mapper
// function maps an array of such objects.
#include <cstdio>
#include <vector>

struct Field {
  double *values;
  long count;
  double scale;
};
#pragma omp declare mapper(whole : Field f) map(f, f.values[0 : f.count])

class Grid {
public:
  explicit Grid(long count) : count(count), cells(new double[count]), faces(new double[count + 1]) {
    for (long i = 0; i < count; i++)
      cells[i] = faces[i] = i;
#pragma omp target enter data map(to : this[0 : 1]) map(to : cells[0 : count], faces[0 : count + 1])
  }
  ~Grid() {
#pragma omp target exit data map(delete : cells[0 : count], faces[0 : count + 1]) map(delete : this[0 : 1])
    delete[] cells;
    delete[] faces;
  }
  double step() {
    double sum = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(tofrom : sum)
    for (long i = 0; i < count; i++) {
      cells[i] += 0.5 * faces[i];
      sum += cells[i];
    }
#pragma omp target update from(cells[0 : count])
    return sum;
  }

private:
  long count;
  double *cells, *faces;
};

int main() {
  Grid grid(4096);
  double sum = grid.step() + grid.step();
  Field field{new double[1024], 1024, 2.0};
  for (int i = 0; i < 1024; i++)
    field.values[i] = i;
#pragma omp target teams distribute parallel for map(mapper(whole), tofrom : field)
  for (long i = 0; i < field.count; i++)
    field.values[i] *= field.scale;
  std::printf("%g %g\n", sum, field.values[10]);
  delete[] field.values;
}
