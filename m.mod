!mod$ v1 sum:20ff368f8f2d7328
module m
type::cell
real(8)::v(1_8:4_8,1_8:5_8)
real(8),allocatable::w(:,:)
integer(4)::k
end type
contains
subroutine shaped(x)
real(8),intent(inout)::x(:,:)
end
end
